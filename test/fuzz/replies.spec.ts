import { setTimeout as sleep } from 'node:timers/promises';
import * as fc from 'fast-check';
import { type Lock } from '../../lib/index.js';
import { Backing } from './support/backing.js';
import { type Bad, bad, changeReply } from './support/bad-replies.js';
import { fuzz, part } from './support/area.js';
import { type BareScene, startBareScene } from './support/bare-scene.js';
import { type Answer, goodAnswer } from './support/fake-redis.js';
import { settled } from './support/scene.js';
import { checkIsTyped, outcomeOf } from './support/typed-error.js';

const LEASE_MS = 100;
/** A call of an operator may send several commands, and each has five seconds. */
const OPERATOR_MS = 40_000;
const OPTIONS = { leaseMs: LEASE_MS, waitMs: 40 };

/** Calls of the public API, and the commands whose replies they depend on. */
const CALLS = {
  acquire: ['acquire', 'time', 'info', 'release'],
  acquireMany: ['acquireMany', 'release'],
  hold: ['renew', 'release'],
  extend: ['renew'],
  downgrade: ['downgrade', 'inspect'],
  adopt: ['adopt', 'adopt', 'renew', 'release'],
  withLock: ['acquire', 'release'],
  inspect: ['inspect'],
  isLocked: ['inspect'],
  list: ['scan', 'inspect'],
  forceRelease: ['inspect', 'forceRelease'],
  lastRun: ['inspect'],
  replicas: ['acquire', 'wait', 'info'],
} as const;

interface Case {
  readonly call: keyof typeof CALLS;
  /** Chooses one of the commands. */
  readonly command: number;
  readonly bad: Bad;
  /** How many replies are bad. */
  readonly times: number;
}

const oneCase: fc.Arbitrary<Case> = fc.record({
  call: fc.constantFrom(...(Object.keys(CALLS) as (keyof typeof CALLS)[])),
  command: fc.nat({ max: 3 }),
  bad,
  times: fc.constantFrom(1, 2, Number.MAX_SAFE_INTEGER),
});

/** Answers one command badly, all others well. */
function answerOf({ call, command, bad: instead, times }: Case, backing: Backing): Answer {
  const commands = CALLS[call];
  const chosen: string = commands[command % commands.length]!;
  let left = times;
  return (received, socket) => {
    const right = goodAnswer(received, socket)!;
    const isBad = received.name === chosen && left-- > 0;
    const reply = !isBad ? right : instead.kind === 'changed' ? changeReply(right, instead) : replyOf(instead, right);
    if (isBad && instead.kind === 'cut') socket.destroy();
    if (isBad && instead.kind === 'extra') socket.write('$5\r\nextra\r\n');
    if (reply !== undefined) backing.onReply(received, reply);
    return reply;
  };
}

function replyOf(instead: Bad, right: ReturnType<Answer>): ReturnType<Answer> {
  if (instead.kind === 'reply') return instead.reply;
  return instead.kind === 'extra' ? right : undefined;
}

async function list({ locks }: BareScene): Promise<number> {
  let count = 0;
  for await (const { waiters } of locks.list()) count += waiters;
  return count;
}

/** Holds a lock for longer than its lease, and watches what it believes. */
async function hold(lock: Lock, backing: Backing, ms: number): Promise<void> {
  const end = performance.now() + ms;
  do {
    backing.check(lock.held);
    await sleep(5);
  } while (performance.now() < end);
  backing.check(lock.held);
}

async function withOne(scene: BareScene, use: (lock: Lock) => Promise<unknown>): Promise<void> {
  const lock = await scene.locks.acquire('key', { ...OPTIONS, mode: 'write' });
  try {
    await use(lock);
  } finally {
    await lock.release();
  }
}

/** Gives a lock away, and goes on with it. */
async function adopt({ locks }: BareScene, lock: Lock, backing: Backing): Promise<void> {
  const text = await lock.transfer();
  backing.onTransferred();
  backing.check(lock.held);
  const adopted = await locks.adopt(text);
  backing.check(adopted.held);
  await adopted.release();
}

function make(scene: BareScene, call: Case['call'], backing: Backing): Promise<unknown> {
  const { locks } = scene;
  switch (call) {
    case 'acquireMany':
      return locks.withLock(['a', 'b'], OPTIONS, ({ held }) => backing.check(held));
    case 'withLock':
    case 'replicas':
      return locks.withLock('key', OPTIONS, ({ held }) => backing.check(held));
    case 'acquire':
      return withOne(scene, async (lock) => backing.check(lock.held));
    case 'hold':
      return withOne(scene, (lock) => hold(lock, backing, 1.5 * LEASE_MS));
    case 'extend':
      return withOne(scene, (lock) => lock.extend(2 * LEASE_MS).finally(() => backing.check(lock.held)));
    case 'downgrade':
      return withOne(scene, (lock) => lock.downgrade().finally(() => backing.check(lock.held)));
    case 'adopt':
      return withOne(scene, (lock) => adopt(scene, lock, backing));
    case 'list':
      return list(scene);
    default:
      return locks[call]('key');
  }
}

async function check(given: Case): Promise<void> {
  const backing = new Backing();
  const replicas = given.call === 'replicas' ? { minReplicas: 1, replicaTimeoutMs: 20 } : {};
  const scene = await startBareScene(answerOf(given, backing), { ...OPTIONS, ...replicas });
  try {
    const outcome = await outcomeOf(() => settled(make(scene, given.call, backing), OPERATOR_MS));
    if ('error' in outcome) checkIsTyped(outcome.error);
  } finally {
    await scene.close();
  }
}

describe('a server that answers nonsense', () => {
  it('is answered by a typed error within the time of the call, and lets nobody hold a lock', async () => {
    await fuzz('replies', [part(600, oneCase, check, { width: 100 })]);
  }, 600_000);
});
