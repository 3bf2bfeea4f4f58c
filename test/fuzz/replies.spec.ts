import { setTimeout as sleep } from 'node:timers/promises';
import * as fc from 'fast-check';
import { Raw, type Reply } from './support/resp.js';
import { type Lock } from '../../lib/index.js';
import { Backing, type BareScene, settled, startBareScene } from './support/scene.js';
import { checkIsTyped, fuzz, outcomeOf, part } from './support/area.js';
import { type Answer, goodAnswer } from './support/fake-redis.js';

/** What a server does instead of its reply. */
type Bad =
  | { readonly kind: 'reply'; readonly reply: Reply }
  /** The right reply with other elements. */
  | { readonly kind: 'changed'; readonly change: Change; readonly at: number; readonly by: Reply }
  /** One more reply behind the right one: all later ones answer other commands. */
  | { readonly kind: 'extra' }
  | { readonly kind: 'silence' }
  | { readonly kind: 'cut' };

type Change = 'replace' | 'insert' | 'remove' | 'truncate';

const nested = (depth: number): Reply => Array.from({ length: depth }).reduce<Reply>((inner) => [inner], 'x');

const ERRORS = [
  'ERR odd', 'WRONGTYPE odd', 'NOSCRIPT No matching script', 'READONLY odd', 'LOADING odd', 'OOM odd', 'NOAUTH odd', 'NOPERM odd',
  'MOVED 1 127.0.0.1:1', 'MOVED odd', 'ASK 1 127.0.0.1:1', 'BUSY odd', 'MASTERDOWN odd', 'CLUSTERDOWN odd', 'TRYAGAIN odd',
  'NOREPLICAS odd', 'MISCONF odd', 'EXECABORT odd', 'UNKILLABLE odd', '', ' ', 'x'.repeat(10_000),
]; // prettier-ignore

/** Types of RESP3, and invalid protocol. */
const RAW = [
  '+OK\r\n', '+\r\n', '*-1\r\n', '_\r\n', '#t\r\n', '#x\r\n', ',nan\r\n', ',1.5\r\n', ',inf\r\n', '(123456789012345678901234567890\r\n',
  '=7\r\ntxt:abc\r\n', '!7\r\nERR odd\r\n', '%1\r\n$1\r\na\r\n:1\r\n', '~1\r\n:1\r\n', '>2\r\n$3\r\nodd\r\n$1\r\na\r\n',
  '*2\r\n-ERR odd\r\n:1\r\n', 'garbage\r\n', '\0\0\0\0', '$-5\r\n', '$5\r\nab', '*3\r\n$1\r\na\r\n', '*99999999999\r\n', '$x\r\n', ':x\r\n',
  'HTTP/1.1 400 Bad Request\r\n\r\n', '\r\n', '@@@@\r\n',
]; // prettier-ignore

const HUGE = [nested(500), Array.from({ length: 5_000 }, () => 'x'), 'x'.repeat(1_000_000)];

const ELEMENTS = [
  '', 'NaN', 'Infinity', '-1', '0', '-0', '1', '1.5', '1e300', '0x10', ' 5', '5 ', '9007199254740993', '9'.repeat(400), 'granted', 'renewed',
  'busy', 'refused', 'released', 'late', 'other.attempt', null, 0, -1, 7, [], ['x'], nested(50), 'x'.repeat(10_000), 'true', '\0', '%', '{}',
] as const; // prettier-ignore

const leaf: fc.Arbitrary<Reply> = fc.oneof(
  fc.constantFrom<Reply>(...ELEMENTS),
  fc.integer(),
  fc.string({ maxLength: 20 }),
  fc.maxSafeInteger().map(String),
);

const anyReply: fc.Arbitrary<Reply> = fc.oneof(
  leaf,
  fc.constantFrom(...ERRORS).map((text) => new Error(text)),
  fc.constantFrom(...RAW).map((text) => new Raw(text)),
  { weight: 2, arbitrary: fc.array(leaf, { maxLength: 8 }) },
  fc.array(fc.array(leaf, { maxLength: 3 }), { maxLength: 3 }),
);

const huge: fc.Arbitrary<Reply> = fc.constantFrom<Reply>(...HUGE);

const changed: fc.Arbitrary<Bad> = fc.record({
  kind: fc.constant('changed' as const),
  change: fc.constantFrom<Change>('replace', 'replace', 'replace', 'insert', 'remove', 'truncate'),
  at: fc.nat({ max: 9 }),
  by: leaf,
});

const bad: fc.Arbitrary<Bad> = fc.oneof(
  { weight: 12, arbitrary: changed },
  { weight: 12, arbitrary: anyReply.map((reply) => ({ kind: 'reply' as const, reply })) },
  { weight: 1, arbitrary: huge.map((reply) => ({ kind: 'reply' as const, reply })) },
  { weight: 1, arbitrary: fc.constantFrom<Bad>({ kind: 'extra' }, { kind: 'silence' }, { kind: 'cut' }) },
);

/** The elements of the right reply after a change. */
function changeReply(right: Reply, { change, at, by }: Bad & { readonly kind: 'changed' }): Reply {
  if (!Array.isArray(right)) return by;
  const parts = [...(right as readonly Reply[])];
  const index = at % (parts.length + 1);
  if (change === 'truncate') return parts.slice(0, index);
  if (change === 'insert') parts.splice(index, 0, by);
  else if (change === 'remove') parts.splice(index, 1);
  else parts[Math.min(index, parts.length - 1)] = by;
  return parts;
}

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

/** Transfers a lock, and adopts it. */
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
  it('is answered by a typed error within the time of the call, and lets no call hold a lock', async () => {
    await fuzz('replies', [part(600, oneCase, check, { width: 100 })]);
  }, 600_000);
});
