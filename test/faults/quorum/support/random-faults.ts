import { setTimeout as sleep } from 'node:timers/promises';
import { type Redis } from 'ioredis';
import { disconnect, isCommand } from '../../../support/redis/own-redis.js';
import { type NetApp } from '../../../support/redis/quorum-net.js';
import { type TcpProxy } from '../../../support/network/tcp-proxy.js';
import { setToken } from '../../../support/redis/records.js';

/** Random choices that a seed repeats, as far as the time of the machine lets it. */
export interface Random {
  /** From 0 up to 1. */
  next(): number;
  /** A whole number, both ends included. */
  int(from: number, to: number): number;
  pick<T>(list: readonly T[]): T;
  chance(share: number): boolean;
}

/** The generator `mulberry32`. */
export function randomFrom(seed: number): Random {
  let state = seed | 0;
  const next = (): number => {
    state = (state + 0x6d_2b_79_f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const int = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1));
  return { next, int, pick: (list) => list[int(0, list.length - 1)]!, chance: (share) => next() < share };
}

const COMMANDS = ['acquire', 'acquireMany', 'renew', 'release', 'writeBack'] as const;

/** What may happen to the way of an app to a node. */
type Fault = (proxy: TcpProxy, random: Random) => void;

const OUTAGES: readonly Fault[] = [(proxy) => disconnect(proxy), (proxy) => proxy.blackhole(true)];

const FAULTS: readonly Fault[] = [
  ...OUTAGES,
  (proxy) => proxy.cutAll(),
  (proxy) => proxy.refuse(true),
  (proxy, random) => void (proxy.delayMs = random.int(1, 80)),
  (proxy, random) => proxy.dropNextReply(isCommand(random.pick(COMMANDS))),
  (proxy, random) => {
    // Carried out, and then out of reach.
    const matches = isCommand(random.pick(COMMANDS));
    proxy.dropNextReply((text) => {
      if (!matches(text)) return false;
      proxy.refuse(true);
      return true;
    });
  },
];

function heal(proxy: TcpProxy): void {
  proxy.refuse(false);
  proxy.blackhole(false);
  proxy.delayMs = 0;
  proxy.dropNextReply(() => false);
}

/**
 * Breaks the ways to at most so many nodes, the same for all apps or others for each. What breaks a majority lasts, or no
 * lease would end of it.
 */
function breakWays(apps: readonly NetApp[], atMost: number, random: Random): void {
  const size = apps[0]!.proxies.length;
  const someNodes = () => new Set(Array.from({ length: random.int(0, atMost) }, () => random.int(0, size - 1)));
  const common = random.chance(0.5) ? someNodes() : undefined;
  const isQuiet = random.chance(0.2);
  const isSevere = 2 * atMost >= size;
  for (const { proxies } of apps) {
    if (isSevere && random.chance(0.85)) continue;
    proxies.forEach(heal);
    if (isQuiet) continue;
    for (const node of common ?? someNodes()) random.pick(isSevere ? OUTAGES : FAULTS)(proxies[node]!, random);
  }
}

/** Another node each time has the clock that is ahead of all, as far as the tokens of these keys tell. */
export function fastClocks(admins: readonly Redis[], keys: readonly string[], random: Random): () => Promise<unknown> {
  let aheadMs = 0;
  return () => {
    aheadMs += 60_000;
    return setToken(random.pick(admins), random.pick(keys), String((Date.now() + aheadMs) * 1_000));
  };
}

/** What makes the ways of all apps worse. */
export interface FaultOptions {
  readonly apps: readonly NetApp[];
  /** How many nodes are broken at a time, at most. */
  readonly atMost: number;
  readonly random: Random;
  readonly onRound: () => Promise<unknown>;
}

/** Other faults every 100 to 400 ms, with quiet times, until it is stopped; then all ways are whole again. */
export function startFaults({ apps, atMost, random, onRound }: FaultOptions): { stop(): Promise<number> } {
  const stopped = new AbortController();
  let rounds = 0;
  const run = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      breakWays(apps, atMost, random);
      await onRound();
      rounds += 1;
      await sleep(random.int(100, 400), undefined, { signal: stopped.signal }).catch(() => undefined);
    }
    for (const { proxies } of apps) proxies.forEach(heal);
  };
  const running = run();
  const stop = async (): Promise<number> => {
    stopped.abort();
    await running;
    return rounds;
  };
  return { stop };
}
