import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type Forgets } from '../../checker/events.js';
import { type ChaosServer } from '../servers.js';
import { type Randoms } from '../worker/random.mjs';
import { type FaultKind, LARGEST_STEP_MS } from './plan.js';

/** The keys of the workers (../worker), in Redis. */
export const KEYS = ['x0', 'x1', 'x2', 'rw0', 'rw1', 'permits', 'm0', 'm1', 'm2', 'owned', 'job', 'lead0', 'lead1'];
export const storageKey = (key: string): string => `chaos:${key}`;

/** The server currently at a place of the topology; the one that has this key, if given. */
export type Place = (key?: string) => ChaosServer | Promise<ChaosServer>;

interface Shape {
  readonly lasts?: (random: Randoms) => number;
  readonly forgets?: Forgets;
  /** In Redis. */
  readonly key?: string;
}

/** A kind of fault on a server for some time. */
type Inflict = (server: ChaosServer, ms: number, random: Randoms) => Promise<unknown> | void;

const kind = (places: readonly Place[], name: string, { lasts, forgets, key }: Shape, inflict: Inflict): FaultKind => ({
  name,
  plan(random) {
    const i = random.between(0, places.length - 1);
    const lastsMs = lasts?.(random) ?? 100;
    return {
      target: `server ${i}`,
      lastsMs,
      forgets,
      inflict: async () => {
        await inflict(await places[i]!(key), lastsMs, random);
      },
    };
  },
});

const forAWhile = (random: Randoms): number => random.between(200, 3_500);

/** Faults after which a server still has its data. */
export function serverFaults(places: readonly Place[]): FaultKind[] {
  const on = (name: string, shape: Shape, inflict: Inflict) => kind(places, name, shape, inflict);
  return [
    on('CLIENT KILL normal', {}, (server) => server.send('CLIENT', 'KILL', 'TYPE', 'normal')),
    on('CLIENT KILL pubsub', {}, (server) => server.send('CLIENT', 'KILL', 'TYPE', 'pubsub')),
    on('CLIENT PAUSE', { lasts: forAWhile }, async (server, ms, random) => {
      await server.send('CLIENT', 'PAUSE', ms, random.pick(['ALL', 'WRITE']));
      await sleep(ms);
    }),
    on('server stopped', { lasts: forAWhile }, async (server, ms) => {
      await server.suspend();
      await sleep(ms);
      await server.resume();
    }),
    on('server killed', { lasts: (random) => random.between(300, 3_000) }, async (server, ms) => {
      await server.kill();
      await sleep(ms);
      await server.restart({ keepData: true });
    }),
    on('SCRIPT FLUSH', {}, (server) => server.send('SCRIPT', 'FLUSH')),
    on('out of memory', { lasts: forAWhile }, async (server, ms) => {
      await server.send('CONFIG', 'SET', 'maxmemory', '1');
      await sleep(ms);
      await server.send('CONFIG', 'SET', 'maxmemory', '0');
    }),
  ];
}

/** Faults that make a server forget locks. */
export function forgettingFaults(places: readonly Place[]): FaultKind[] {
  const all = (lasts?: Shape['lasts']): Shape => ({ forgets: 'all', ...(lasts && { lasts }) });
  const on = (name: string, shape: Shape, inflict: Inflict) => kind(places, name, shape, inflict);
  return [
    on(
      'server restarted empty',
      all((random) => random.between(300, 3_000)),
      async (server, ms) => {
        await server.kill();
        await sleep(ms);
        await server.restart({ keepData: false });
      },
    ),
    on('FLUSHALL', all(), (server) => server.send('FLUSHALL')),
    on(
      'eviction',
      all(() => 300),
      async (server) => {
        await server.send('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-random', 'maxmemory', '1');
        // A command that needs memory makes the server evict; it fails when nothing is left to evict.
        await server.send('SET', 'filler', 'x');
        await sleep(200);
        await server.send('CONFIG', 'SET', 'maxmemory', '0', 'maxmemory-policy', 'noeviction');
      },
    ),
    onAKey(
      places,
      'key deleted',
      () => 100,
      (server, key) => server.send('DEL', key),
    ),
    onAKey(
      places,
      'key replaced',
      (random) => random.between(100, 2_000),
      async (server, key, ms) => {
        // It ends by itself, also on a replica that has taken over.
        await server.send('SET', key, 'not a lock', 'PX', ms);
        await sleep(ms);
      },
    ),
  ];
}

function onAKey(
  places: readonly Place[],
  name: string,
  lasts: (random: Randoms) => number,
  inflict: (server: ChaosServer, key: string, ms: number) => Promise<unknown>,
): FaultKind {
  return {
    name,
    plan(random) {
      const key = random.pick(KEYS);
      const act: Inflict = (server, ms) => inflict(server, storageKey(key), ms);
      return kind(places, name, { lasts, forgets: [key], key: storageKey(key) }, act).plan(random);
    },
  };
}

/** Steps of a server's wall clock. A step forward ends leases; one back makes them longer. */
export function clockFaults(clocks: readonly ((ms: number) => void)[]): FaultKind[] {
  const plan = (random: Randoms, from: number, to: number) => {
    const i = random.between(0, clocks.length - 1);
    const ms = random.between(from, to);
    return { target: `clock ${i}`, lastsMs: 100, stepsBackMs: Math.max(-ms, 0), inflict: async () => clocks[i]!(ms) };
  };
  return [
    { name: 'clock steps forward', plan: (random) => ({ ...plan(random, 100, LARGEST_STEP_MS), forgets: 'all' }) },
    {
      name: 'clock steps back',
      plan: (random) => ({ ...plan(random, -LARGEST_STEP_MS, -100), keepsDataMs: LARGEST_STEP_MS }),
    },
  ];
}

const SCRIPT = join(import.meta.dirname, '..', 'worker', 'force-release.mjs');
const WITHIN_MS = 10_000;

/** An operator takes a lock from its holder, by a connection that is not affected by faults. */
export const operatorFaults = (connection: () => unknown): FaultKind[] => [
  {
    name: 'force release',
    plan(random) {
      const key = random.pick(KEYS);
      return {
        target: 'operator',
        forgets: [key],
        lastsMs: 1_500,
        async inflict() {
          const args = [SCRIPT, JSON.stringify(connection()), key];
          // While the servers are away it fails, as any command would.
          await promisify(execFile)(process.execPath, args, { timeout: WITHIN_MS }).catch(() => undefined);
        },
      };
    },
  },
];
