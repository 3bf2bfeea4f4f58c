import { setTimeout as sleep } from 'node:timers/promises';
import * as fc from 'fast-check';
import { LockLostError, LockStoreError, LockWaitTimeoutError } from '../../lib/index.js';
import { eventually } from '../support/waiting/eventually.js';
import { checkIsTyped, fuzz, outcomeOf, part } from './support/area.js';
import { Backing, type BareScene, settled, startBareScene } from './support/scene.js';
import { type Answer, type Received, goodAnswer } from './support/fake-redis.js';
import { Raw, type Reply } from './support/resp.js';

const LAST_TOKEN = 1_000;
const HOLD_MS = 40;
const WAIT_MS = 80;
const OPTIONS = { leaseMs: 20_000, waitMs: WAIT_MS };
/** The maximum number of lines in the log, for any number of messages. */
const MAX_LINES = 20;
/** The number of commands that are sent anyway: polls, renewals and releases. */
const COMMANDS = 30;

/** Stands for the attempt of the call in a message. */
const ATTEMPT = '<attempt>';

const word = fc.oneof(
  fc.constantFrom(
    ATTEMPT,
    'granted',
    'wake',
    'revoked',
    'other.1',
    '',
    '-',
    'NaN',
    'Infinity',
    '-1',
    '0',
    '1',
    '999',
    '1001',
    '1e300',
    '0x10',
    '1.5',
    '9007199254740993',
    '9'.repeat(400),
    '__proto__',
    'constructor',
    '\0',
    '\uFFFD',
  ),
  fc.nat().map(String),
  fc.string({ maxLength: 8 }),
);
const number = fc.oneof(fc.integer({ min: 1, max: 100_000 }).map(String), word);
const kind = fc.oneof({ weight: 4, arbitrary: fc.constantFrom('granted', 'wake', 'revoked') }, word);
const whose = fc.oneof({ weight: 3, arbitrary: fc.constant(ATTEMPT) }, word);

const text = fc.oneof(
  fc.tuple(kind, whose, number, number, number).map((words) => words.join(' ')),
  fc.tuple(kind, whose).map((words) => words.join(' ')),
  fc.array(word, { maxLength: 8 }).map((words) => words.join(' ')),
  fc.constantFrom('x'.repeat(1_000_000), `granted ${ATTEMPT} ${'1 '.repeat(100_000)}`),
  fc.string({ unit: 'binary', maxLength: 40 }),
);

interface Case {
  readonly role: 'waiter' | 'holder';
  readonly messages: readonly string[];
  /** How often all of them are sent. */
  readonly times: number;
}

const oneCase: fc.Arbitrary<Case> = fc
  .record({
    role: fc.constantFrom<Case['role']>('waiter', 'holder'),
    messages: fc.array(text, { minLength: 1, maxLength: 4 }),
    times: fc.oneof({ weight: 9, arbitrary: fc.constant(1) }, fc.constant(300)),
  })
  .map((one) => (one.messages.some((message) => message.length > 1_000) ? { ...one, times: 1 } : one));

const nothing = (): string => String(Date.now());
const busy = ({ operands }: Received): Reply =>
  ['busy', operands['attempt']!, nothing(), '1000', '0', 'host:1', '', '1', String(LAST_TOKEN), '', '']; // prettier-ignore

/** For how long a message lets the attempt hold the lock, by what our scripts publish: written down once more. */
function leaseInMessage(message: string, attempt: string): number {
  const [first, whom, ...numbers] = message.split(' ');
  const [token, time, left] = numbers.slice(0, 3);
  const areNumbers = [token, time, left].every((one) => /^\d{1,16}$/.test(one ?? ''));
  const isGrant = first === 'granted' && whom === attempt && areNumbers && Number(token) > LAST_TOKEN;
  return isGrant && Number(left) <= 30 * 24 * 3_600_000 ? Number(left) : 0;
}

const isRevoking = (message: string, attempt: string): boolean => /^revoked (\S*)/.exec(message)?.[1] === attempt;

/** Grants to a holder, keeps a waiter waiting, and notes what it lets them hold. */
function serve(role: Case['role'], backing: Backing): { answer: Answer; attempt: () => string | undefined } {
  let attempt: string | undefined;
  const answer: Answer = (received, socket) => {
    const reply = role === 'waiter' && received.name === 'acquire' ? busy(received) : goodAnswer(received, socket)!;
    if (received.name === 'acquire') attempt = received.operands['attempt'];
    backing.onReply(received, reply);
    return reply;
  };
  return { answer, attempt: () => attempt };
}

async function hold(backing: Backing, lock: { readonly held: boolean }): Promise<void> {
  const end = performance.now() + HOLD_MS;
  do {
    backing.check(lock.held);
    await sleep(5);
  } while (performance.now() < end);
}

async function check({ role, messages, times }: Case): Promise<void> {
  const backing = new Backing();
  const { answer, attempt } = serve(role, backing);
  const scene = await startBareScene(answer, OPTIONS);
  try {
    await eventually(() => scene.redis.hasSubscriber, { message: 'No subscription' });
    const call = outcomeOf(() => settled(scene.locks.withLock('key', (lock) => hold(backing, lock))));
    await eventually(() => attempt() !== undefined, { intervalMs: 1, message: 'Nothing was asked for' });
    const sent = messages.map((message) => message.replaceAll(ATTEMPT, attempt()!));
    for (const message of sent) {
      const leaseMs = leaseInMessage(message, attempt()!);
      if (leaseMs > 0) backing.until = Math.max(backing.until, performance.now() + leaseMs);
    }
    for (let i = 0; i < times; i += 1) for (const message of sent) scene.redis.publish(message);
    checkOutcome(role, await call, sent.some((message) => isRevoking(message, attempt()!))); // prettier-ignore
    checkBounds(scene, sent.length * times);
  } finally {
    await scene.close();
  }
}

function checkOutcome(role: Case['role'], outcome: Awaited<ReturnType<typeof outcomeOf>>, isRevoked: boolean): void {
  if (!('error' in outcome)) return;
  checkIsTyped(outcome.error);
  if (role === 'waiter' && outcome.error instanceof LockWaitTimeoutError) return;
  // While the machine stalls, the answer of the server comes after the time of the call.
  if (outcome.error instanceof LockStoreError && outcome.error.retryable) return;
  // The lease of a grant that was pushed may be short.
  if (outcome.error instanceof LockLostError && (role === 'waiter' || isRevoked)) return;
  throw new Error('A message had an effect that it may not have', { cause: outcome.error });
}

function checkBounds({ lines, redis }: BareScene, messages: number): void {
  if (lines.length > MAX_LINES) throw new Error(`The log has ${lines.length} lines, the last: ${lines.at(-1)}`);
  const longest = Math.max(0, ...lines.map((line) => line.length));
  if (longest > 5_000) throw new Error(`A line of the log has ${longest} characters`);
  if (redis.received.length > messages + COMMANDS) throw new Error(`${redis.received.length} commands were sent`);
}

interface Pushed {
  readonly role: Case['role'];
  readonly to: 'subscriber' | 'commands';
  readonly frames: readonly Reply[];
}

const part3 = fc.constantFrom<Reply>(
  null,
  '',
  'message',
  'subscribe',
  'x',
  0,
  [],
  [null],
  new Error('ERR odd'),
  'granted x 1 1 1',
);
const frame = fc.oneof<fc.Arbitrary<Reply>[]>(
  fc.array(part3, { maxLength: 4 }),
  fc.tuple(fc.constantFrom('message', 'subscribe', 'unsubscribe', 'pmessage', 'smessage', 'sunsubscribe', 'invalidate', 'pong'), part3, part3),
  part3,
  fc.constantFrom('>3\r\n$7\r\nmessage\r\n_\r\n_\r\n', '>0\r\n', '>1\r\n_\r\n', '_\r\n', '*-1\r\n', '$-1\r\n', '%1\r\n+a\r\n+b\r\n', '!3\r\nERR\r\n', '*1\r\n', '$5\r\nab', '\r\n', 'x', '*3\r\n$7\r\nmessage\r\n', '|1\r\n+a\r\n+b\r\n').map((bytes) => new Raw(bytes)),
); // prettier-ignore

const pushed: fc.Arbitrary<Pushed> = fc.record({
  role: fc.constantFrom<Case['role']>('waiter', 'holder'),
  to: fc.constantFrom<Pushed['to']>('subscriber', 'commands'),
  frames: fc.array(frame, { minLength: 1, maxLength: 3 }),
});

/**
 * A nil where ioredis calls `toString`: as an unexpected answer, or as a part of a message. It throws where no application
 * can catch the error. No Redis sends such a thing.
 */
const isOfIoredis = (error: unknown): boolean =>
  error instanceof Error && /reading 'toString'/.test(error.message) && /ioredis.built.DataHandler/.test(error.stack!);

/** Unsolicited replies. The connection may be replaced; the next call works. */
async function checkPushed({ role, to, frames }: Pushed): Promise<void> {
  const backing = new Backing();
  const { answer, attempt } = serve(role, backing);
  const scene = await startBareScene(answer, OPTIONS);
  try {
    await eventually(() => scene.redis.hasSubscriber, { message: 'No subscription' });
    const call = outcomeOf(() => settled(scene.locks.withLock('key', (lock) => hold(backing, lock))));
    await eventually(() => attempt() !== undefined, { intervalMs: 1, message: 'Nothing was asked for' });
    for (const one of frames) scene.redis.push(one, to);
    const outcome = await call;
    if ('error' in outcome) checkIsTyped(outcome.error);
    await untilServed(scene);
    checkBounds(scene, 0);
  } finally {
    await scene.close();
  }
}

/** The next call may meet the rest of what was sent. */
async function untilServed({ locks }: BareScene): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    const outcome = await outcomeOf(() => settled(locks.isLocked('key')));
    if (!('error' in outcome)) return;
    checkIsTyped(outcome.error);
    if (tries === 5) throw new Error('No call works', { cause: outcome.error });
  }
}

describe('messages of any kind on the channel of the wake-ups', () => {
  it('grant nothing that the server did not, end no hold that was not revoked, and fill no log', async () => {
    await fuzz('messages', [
      part(400, oneCase, check, { width: 30 }),
      part(200, pushed, checkPushed, { width: 30, isKnown: isOfIoredis }),
    ]);
  }, 600_000);
});
