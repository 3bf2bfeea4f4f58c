import { once } from 'node:events';
import { type AddressInfo, type Server, type Socket, createServer } from 'node:net';
import { createLockScripts } from '../../../lib/index.js';
import { withHashes } from '../../../lib/redis/scripts/lock-scripts.js';
import { CommandReader, type Reply, encode } from './resp.js';

/** A command that the server received; of a script, its operation and its operands by name. */
export interface Received {
  readonly name: string;
  readonly words: readonly string[];
  readonly keys: readonly string[];
  readonly operands: Readonly<Record<string, string>>;
}

/** What a server answers; `undefined`: nothing at all. `push` sends further bytes on the same connection. */
export type Answer = (command: Received, socket: Socket) => Reply | undefined;

const namesOfScripts = new Map(
  Object.entries(withHashes(createLockScripts())).flatMap(([name, { sha1, text }]) => [
    [sha1, name],
    [text, name],
  ]),
);

/** What a connection sends before our first command; by EVAL, it asks whether there is one server behind the address. */
const GREETING = new Set(['hello', 'client', 'auth', 'select', 'info', 'subscribe', 'ping', 'time', 'eval']);

/** Speaks the Redis protocol, knows our scripts by their names, and answers whatever the test wants. */
export class FakeRedis {
  /** All commands but those of the greeting. */
  readonly received: Received[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #subscribers = new Map<string, Socket>();

  private constructor(private readonly answer: Answer) {
    this.#server = createServer((socket) => this.#serve(socket));
  }

  static async start(answer: Answer = goodAnswer): Promise<FakeRedis> {
    const fake = new FakeRedis(answer);
    fake.#server.listen(0, '127.0.0.1');
    await once(fake.#server, 'listening');
    return fake;
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Sends a message to all subscribers of the wake-ups. */
  publish(message: Reply): void {
    for (const [channel, socket] of this.#subscribers) socket.write(encode(['message', channel, message]));
  }

  /** Whether the wake-ups have a listener. */
  get hasSubscriber(): boolean {
    return this.#subscribers.size > 0;
  }

  /** Sends an unsolicited reply to all subscribers of the wake-ups, or on all other connections. */
  push(reply: Reply, to: 'subscriber' | 'commands'): void {
    const subscribers = new Set(this.#subscribers.values());
    for (const socket of this.#sockets)
      if (subscribers.has(socket) === (to === 'subscriber')) socket.write(encode(reply));
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #serve(socket: Socket): void {
    const reader = new CommandReader();
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#sockets.delete(socket);
      for (const [channel, one] of this.#subscribers) if (one === socket) this.#subscribers.delete(channel);
    });
    socket.on('data', (bytes) => {
      for (const words of reader.push(bytes)) this.#onCommand(words, socket);
    });
  }

  #onCommand(words: readonly string[], socket: Socket): void {
    const [command, ...others] = read(words);
    if (command!.name === 'subscribe') this.#subscribers.set(words[1]!, socket);
    const reply = others.length > 0 ? this.#answerAll([command!, ...others], socket) : this.#answerTo(command!, socket);
    if (reply !== undefined && socket.writable) socket.write(encode(reply));
  }

  #answerTo(command: Received, socket: Socket): Reply | undefined {
    if (!GREETING.has(command.name)) this.received.push(command);
    return this.answer(command, socket);
  }

  /** A server that does not answer one of them answers none. */
  #answerAll(operations: readonly Received[], socket: Socket): Reply | undefined {
    const replies = operations.map((operation) => this.#answerTo(operation, socket));
    if (replies.includes(undefined)) return undefined;
    return replies.map((reply) => (reply instanceof Error ? 'failed' : reply!));
  }
}

/** The commands in what was sent: each operation of a batch counts as if it had arrived alone. */
function read(words: readonly string[]): Received[] {
  const name = words[0]!.toLowerCase();
  const script = name.startsWith('eval') ? namesOfScripts.get(words[1]!) : undefined;
  if (script === undefined) return [{ name, words, keys: words.slice(1), operands: {} }];
  const count = Number(words[2]);
  const [keys, args] = [words.slice(3, 3 + count), words.slice(3 + count)];
  if (script === 'operate') return operationsIn(words, keys, args);
  return [{ name: script, words, keys, operands: {} }];
}

/** The second line of terms, by the kind that the first one begins with; see scripts/operate.lua. */
const TERMS = {
  a: 'mode fair leaseMs waiterLeaseMs maxWaiters permits take',
  r: 'unanswered holdAtLeastMs job runOutcome',
  n: 'mode leaseMs',
  d: 'from leaseMs unanswered',
  w: 'newToken',
  f: 'seenToken',
  p: 'permits',
};
const NAMES = {
  a: 'acquire',
  r: 'release',
  n: 'renew',
  d: 'adopt',
  w: 'writeBack',
  f: 'forceRelease',
  p: 'setPermits',
};

function operationsIn(words: readonly string[], keys: readonly string[], args: readonly string[]): Received[] {
  const [sentMicros, untilMicros, own, ...texts] = args;
  const lines = own!.trimEnd().split('\n');
  return lines.map((line, i) => {
    const [number, attempt] = line.split(' ');
    const [head, terms] = texts[Number(number) - 1]!.split('\n');
    const [kind, keepMs] = head!.split(' ') as [keyof typeof NAMES, string];
    const values = terms!.split(' ');
    const named = Object.fromEntries(TERMS[kind].split(' ').map((name, at) => [name, values[at]!]));
    const ofAll = lines.length === 1 && keys.length > 1;
    // A downgrade is a renewal that leaves the lease as it is.
    const name = ofAll ? 'acquireMany' : named['leaseMs'] === '0' ? 'downgrade' : NAMES[kind];
    const operands = { attempt: attempt!, sentMicros: sentMicros!, untilMicros: untilMicros!, keepMs, ...named };
    return { name, words, keys: ofAll ? keys : [keys[i]!], operands };
  });
}

/** The token of every grant: what a real server would send at this time. */
let lastToken = 0;

function nextToken(): number {
  lastToken = Math.max(lastToken + 1, Date.now() * 1_000);
  return lastToken;
}

const now = (): string => String(Date.now());

function granted({ operands, keys }: Received): Reply {
  const tokens = keys.map(() => String(nextToken()));
  return ['granted', operands['attempt']!, now(), operands['leaseMs']!, '1', '', ...tokens];
}

const GOOD: Readonly<Record<string, (command: Received) => Reply>> = {
  hello: () => new Error("ERR unknown command 'hello'"),
  client: () => 'OK',
  auth: () => 'OK',
  select: () => 'OK',
  ping: () => 'PONG',
  eval: () => 'the same server',
  quit: () => 'OK',
  info: () => 'redis_version:7.0.0\r\nloading:0\r\nrole:master\r\nrun_id:0123456789abcdef0123456789abcdef01234567\r\n',
  time: () => [String(Math.floor(Date.now() / 1_000)), String((Date.now() % 1_000) * 1_000)],
  subscribe: ({ words }) => ['subscribe', words[1]!, 1],
  scan: () => ['0', []],
  wait: ({ words }) => Number(words[1]),
  acquire: granted,
  acquireMany: granted,
  renew: ({ operands }) => ['renewed', operands['attempt']!, now(), operands['leaseMs']!],
  release: ({ operands }) => ['released', operands['attempt']!, now(), '0', String(nextToken())],
  adopt: ({ operands }) => ['adopted', operands['attempt']!, now(), operands['leaseMs']!],
  downgrade: ({ operands }) => ['renewed', operands['attempt']!, now(), '1'],
  forceRelease: ({ operands }) => ['revoked', operands['attempt']!, now(), '1'],
  inspect: () => [now(), '0', ''],
};

/** What a server answers that grants every lock. */
export const goodAnswer: Answer = (command) => GOOD[command.name]?.(command) ?? new Error('ERR unknown command');
