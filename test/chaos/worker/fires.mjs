import { setTimeout as sleep } from 'node:timers/promises';
import { Hold } from './hold.mjs';

const PERIOD_MS = 1_500;
export const JOB_LEASE_MS = 700;

/** Calls the job at each of its fires, on every worker; sometimes much later, as a process does that stood still. */
export async function startFires(run) {
  const { random, config } = run;
  for (let i = 1; !run.isStopping; i += 1) {
    const next = (Math.floor(Date.now() / PERIOD_MS) + 1) * PERIOD_MS;
    await sleep(next - Date.now() + random.between(0, 100));
    const fire = random.chance(0.1) ? next - PERIOD_MS * random.between(1, 3) : next;
    await run.turnstile.pass(() => runFire(run, `${config.name}:job:${i}`, fire));
  }
}

async function runFire(run, op, fire) {
  const call = { keys: ['job'], mode: 'write', leaseMs: JOB_LEASE_MS, waitMs: 0, fire };
  run.log('call', { op, ...call });
  let ran = false;
  const work = async (lock) => {
    ran = true;
    await new Hold(run, op, call, lock).work();
  };
  const error = await run.client.runJob(fire, work).then(
    () => ({ code: 'skipped' }),
    (error) => error,
  );
  if (!ran) run.log('failed', { op, code: error.code ?? error.name });
}
