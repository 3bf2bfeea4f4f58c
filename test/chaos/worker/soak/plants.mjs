// Leaks that a soak must find.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const EVERY_MS = 2_000;

export function plant(name, run) {
  return PLANTS[name](run);
}

const PLANTS = {
  /** Keeps every lock object. */
  locks(run) {
    const { client } = run;
    const kept = [];
    run.kept = kept;
    const use = client.use.bind(client);
    client.use = (call, work) =>
      use(call, (lock) => {
        kept.push(lock);
        return work(lock);
      });
  },
  /** Opens one subscriber after the other, and closes none before the end. */
  subscriber: (run) =>
    whileRunning(run, async (i) => {
      const client = connect(run);
      await client.subscribe(`chaos:planted:${i}`);
      return () => client.disconnect();
    }),
  /** Writes keys that have no expiry. */
  key: (run) =>
    whileRunning(run, async (i) => {
      const client = connect(run);
      await client.set(`chaos:planted:${run.config.name}:${i}`, 'x');
      client.disconnect();
      return () => undefined;
    }),
};

const connect = ({ config }) => new Redis([config.connection].flat()[0]).on('error', () => undefined);

async function whileRunning(run, act) {
  const undo = [];
  for (let i = 0; !run.isStopping; i += 1) {
    await sleep(EVERY_MS);
    undo.push(await act(i));
  }
  for (const one of undo) one();
}
