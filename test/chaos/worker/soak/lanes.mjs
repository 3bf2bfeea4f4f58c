// What the workers of a soak do in addition to the calls of their lanes.
import { setTimeout as sleep } from 'node:timers/promises';
import { Lane } from '../lane.mjs';
import { nextCall } from '../workload.mjs';
import { plant } from './plants.mjs';

const LOOK_EVERY_MS = 500;
const APP_EVERY_MS = 5_000;
const CALLS_PER_APP = 5;

export function soakLanes(run) {
  const { plant: name } = run.config.soak;
  return [
    repeat(run, LOOK_EVERY_MS, look),
    repeat(run, APP_EVERY_MS, shortLivedApp),
    ...(name ? [plant(name, run)] : []),
  ];
}

async function repeat(run, everyMs, act) {
  for (let i = 1; !run.isStopping; i += 1) {
    await sleep(run.random.between(everyMs / 2, everyMs));
    await run.turnstile
      .pass(() => act(run, i))
      .catch((error) => {
        run.log('error', {
          what: act.name,
          text: String(error?.message),
          code: error?.code ?? String(error?.stack ?? error),
        });
      });
  }
}

async function look(run, i) {
  const { client, config, random } = run;
  await client.look(random.pick(['x0', 'rw0', 'permits', 'm1', 'owned']));
  // A key that only this process has, so that no other holder is wronged.
  if (!(await client.revoke(`revoked:${config.name}:${i}`))) throw new Error('The holder of a revoked lock kept it.');
}

/** Opens another app in this process, and closes it again. */
async function shortLivedApp(run, i) {
  const client = await run.open(run.config.connection, run.config);
  try {
    // Calls of an app that is not connected yet come later than they say.
    await client.look('x0');
    const lane = new Lane({ ...run, client }, `${run.config.name}:app${i}`);
    for (let call = 0; call < CALLS_PER_APP && !run.turnstile.isClosed; call += 1)
      await lane.call(nextCall(run.random, run.config.workload));
  } finally {
    await client.close();
  }
}
