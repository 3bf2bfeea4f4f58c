import { type ServerEnd, type Socket } from '../network/network.js';
import { type Rng, type World } from '../world/world.js';
import { EPOCH_MS, type SimProcess } from '../world/sim-process.js';
import { type Hash, type KeyChange, type Lua, ReplyError, type ScriptRun, sha1Of } from '../../support/lua/lua.js';
import { type Member } from './member.js';

/** What happens to messages on their way; probabilities, and milliseconds. */
export interface MessageFaults {
  lost: number;
  late: number;
  lateMaxMs: number;
}

interface Publisher {
  readonly world: World;
  readonly rng: Rng;
  readonly name: string;
}

/** Who listens to which channel of a server. */
export class Subscriptions {
  faults: MessageFaults = { lost: 0, late: 0, lateMaxMs: 0 };
  readonly #listeners = new Map<string, Set<Socket>>();
  #counts: string | null = null;

  constructor(private readonly server: Publisher) {}

  add(socket: Socket, channels: readonly string[]): number {
    this.#counts = null;
    for (const channel of channels) {
      const listeners = this.#listeners.get(channel) ?? new Set();
      this.#listeners.set(channel, listeners.add(socket));
    }
    return channels.length;
  }

  drop(socket: Socket): void {
    this.#counts = null;
    for (const [channel, listeners] of this.#listeners) {
      listeners.delete(socket);
      if (listeners.size === 0) this.#listeners.delete(channel);
    }
  }

  /** The channels, each with the number of those that listen, one per line. */
  get counts(): string {
    return (this.#counts ??= [...this.#listeners].map(([channel, { size }]) => `${channel}\n${size}\n`).join(''));
  }

  /** Whether there is a listener. */
  has(channel: string): boolean {
    return this.#listeners.has(channel);
  }

  /** A message leaves before the reply of the command that published it. */
  publish(channel: string, message: string): void {
    const { world, rng, name } = this.server;
    const listeners = this.#listeners.get(channel) ?? new Set();
    for (const socket of listeners) {
      const { lost, late, lateMaxMs } = this.faults;
      // Pub/sub itself loses messages: when the buffer of a client is full, or while it connects again.
      const isLost = rng.chance(lost);
      world.log(() => `${name} sends ${socket.process.name} "${message}"${isLost ? ', which is lost' : ''}`);
      const extraMs = rng.chance(late) ? rng.float(0, lateMaxMs) : 0;
      if (!isLost) socket.reply(() => socket.client.onMessage(channel, message), extraMs);
    }
  }
}

/** A script that arrived. */
export interface ReceivedScript {
  readonly sha1: string;
  readonly process: SimProcess;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

/** Receives what a server does to its locks. */
export interface ServerWatch {
  /** A script has run. `apply` puts what a step of it changed into the data of the server: each step once, in order. */
  onScript(server: SimServer, script: ReceivedScript, run: ScriptRun, apply: (step: number) => void): void;
  onWiped(server: SimServer): void;
}

/** How a server behaves when nothing is wrong with it. */
export interface ServerSettings {
  readonly rate: number;
  readonly offsetMs: number;
}

export type Answer = (reply: unknown, error?: Error) => void;

/** What carries out commands. */
export interface CommandEnd {
  execute(socket: Socket, name: string, args: readonly unknown[], answer: Answer): void;
}

/** Why a replica refuses to write. */
const READ_ONLY = "READONLY You can't write against a read only replica.";

/** One Redis: its data, its subscribers and its clock. It runs any script that a client sends. */
export class SimServer implements ServerEnd, CommandEnd {
  reach: 'accepts' | 'refuses' | 'vanished' = 'accepts';
  /** It changes with each start, as the run id of a real server. */
  starts = 1;
  /** The keys that it has, also those whose time is over and that nothing has read since. */
  data = new Map<string, Hash>();
  /** The keys under which something else is for a while. */
  readonly strangers = new Set<string>();
  /** What it is among other servers; null: it stands alone. */
  member: Member | null = null;
  readonly subscriptions: Subscriptions;
  readonly sockets = new Set<Socket>();
  /** Until when it does nothing; what arrives waits. */
  stalledUntil = 0;
  /** How long each command takes. */
  costMs = 0;
  /** The error that it replies with to scripts. */
  refusal: string | null = null;
  isLoading = false;
  /** When it lost its data, and when its clock last stepped forward. */
  readonly wipes: number[] = [];
  steppedForwardAt = -Infinity;
  /** How many commands it has carried out. */
  commands = 0;
  #known = new Map<string, string>();
  #clockOffset: number;
  #freeAt = 0;
  /** What arrived by connections that wait for replicas. */
  readonly #blocked = new Map<Socket, (() => void)[]>();
  /** The time of the script that runs now. */
  #fixedMicros: number | null = null;

  constructor(
    readonly id: number,
    readonly world: World,
    readonly rng: Rng,
    private readonly settings: ServerSettings,
    private readonly lua: Lua,
    private readonly watch: ServerWatch,
  ) {
    this.#clockOffset = settings.offsetMs;
    this.subscriptions = new Subscriptions(this);
  }

  get name(): string {
    return `S${this.id}`;
  }

  get keys(): readonly string[] {
    return [...this.data.keys()];
  }

  /** What a key has now. */
  hash(key: string): Hash | undefined {
    const hash = this.data.get(key);
    return hash && Math.floor(this.micros / 1_000) <= hash.expiresAt ? hash : undefined;
  }

  change(changes: readonly KeyChange[]): void {
    for (const { key, value } of changes) {
      if (value) this.data.set(key, value);
      else this.data.delete(key);
    }
  }

  get runId(): string {
    return `run${this.id}x${this.starts}`;
  }

  /** Its clock, in milliseconds with fractions. */
  get nowMs(): number {
    return EPOCH_MS + this.world.now * this.settings.rate + this.#clockOffset;
  }

  get micros(): number {
    return this.#fixedMicros ?? Math.floor(this.nowMs * 1_000);
  }

  /** An operator sets its clock. */
  step(ms: number): void {
    this.world.log(() => `${this.name} clock steps by ${ms.toFixed(0)} ms`);
    this.#clockOffset += ms;
    if (ms > 0) this.steppedForwardAt = this.world.now;
  }

  accept(socket: Socket): void {
    this.sockets.add(socket);
  }

  drop(socket: Socket): void {
    this.sockets.delete(socket);
    this.subscriptions.drop(socket);
    this.#blocked.delete(socket);
  }

  /** What arrives by a socket waits until it is unblocked. */
  block(socket: Socket): void {
    this.#blocked.set(socket, []);
  }

  unblock(socket: Socket): void {
    const waiting = this.#blocked.get(socket) ?? [];
    this.#blocked.delete(socket);
    for (const run of waiting) run();
  }

  /** Commands are carried out one after the other, in the order in which they arrived. */
  receive(socket: Socket, run: () => void): void {
    const { world } = this;
    const at = Math.max(world.now, this.stalledUntil, this.#freeAt);
    this.#freeAt = at + this.costMs;
    const { starts } = this;
    const now = (): void => {
      // A server that has died does nothing more.
      if (this.starts === starts && this.reach === 'accepts' && !socket.isServerClosed) this.#now(socket, run);
    };
    if (at > world.now) world.at(at, null, 'server', now);
    else now();
  }

  #now(socket: Socket, run: () => void): void {
    const waiting = this.#blocked.get(socket);
    if (waiting) waiting.push(() => this.#now(socket, run));
    else run();
  }

  execute(socket: Socket, name: string, args: readonly unknown[], answer: Answer): void {
    this.commands += 1;
    const before = this.world.current;
    // The work of the server does not belong to a process.
    this.world.current = null;
    try {
      if (name === 'wait' && this.member) this.member.wait(socket, args, answer);
      else answer(this.#answer(socket, name, args));
    } catch (error) {
      if ((error as Error).name !== 'ReplyError') throw error;
      this.world.log(() => `${this.name} refuses ${name} of ${socket.process.name}: ${(error as Error).message}`);
      answer(undefined, error as Error);
    } finally {
      this.world.current = before;
      this.member?.onCommand(socket);
    }
  }

  #answer(socket: Socket, name: string, args: readonly unknown[]): unknown {
    if (name === 'hello') return 'OK';
    if (name === 'info') return this.#info();
    if (this.isLoading) throw new ReplyError('LOADING Redis is loading the dataset in memory');
    if (name === 'time') return [`${Math.floor(this.micros / 1e6)}`, `${this.micros % 1e6}`];
    if (name === 'subscribe') return this.subscriptions.add(socket, args as string[]);
    if (name === 'evalsha' || name === 'eval') return this.#runScript(socket, name, args);
    const reply = this.member?.command(socket, name, args);
    if (reply !== undefined) return reply;
    throw new ReplyError(`ERR unknown command '${name}'`);
  }

  #info(): string {
    const loading = this.isLoading ? 'loading:1\r\n' : '';
    return `# Server\r\nrun_id:${this.runId}\r\n${loading}# Replication\r\nrole:${this.member?.isReplica ? 'slave' : 'master'}\r\n`;
  }

  #runScript(socket: Socket, by: 'evalsha' | 'eval', [which, count, ...operands]: readonly unknown[]): unknown {
    const [sha1, text] = by === 'eval' ? [sha1Of(String(which)), String(which)] : [String(which), undefined];
    const words = operands.map(String);
    const script = { sha1, process: socket.process, keys: words.splice(0, Number(count)), args: words };
    this.member?.admit(script, socket);
    const known = text ?? this.#known.get(sha1);
    if (known === undefined) throw new ReplyError('NOSCRIPT No matching script. Please use EVAL.');
    this.lua.load(sha1, known);
    this.#known.set(sha1, known);
    if (this.refusal?.startsWith('BUSY')) throw new ReplyError(this.refusal);
    this.#fixedMicros = this.micros;
    try {
      return this.#run(script);
    } finally {
      this.#fixedMicros = null;
    }
  }

  #run(script: ReceivedScript): unknown {
    const run = this.lua.run(script.sha1, script.keys, script.args, {
      micros: this.micros,
      refusal: this.member?.isReplica ? READ_ONLY : (this.refusal ?? ''),
      listening: this.subscriptions.counts,
      valueOf: (key) => (this.strangers.has(key) ? 'other' : this.hash(key)),
    });
    const { reply, messages, steps } = run;
    for (const [channel, message] of messages) this.#publish(channel, message);
    this.world.digest.text(String(reply));
    this.watch.onScript(this, script, run, (step) => this.change(steps[step]!));
    const changes = steps.flat();
    if (changes.length + messages.length > 0) this.member?.record({ changes, messages });
    if (reply instanceof ReplyError) throw reply;
    return reply;
  }

  #publish(channel: string, message: string): void {
    if (this.member) this.member.publish(channel, message, false);
    else this.subscriptions.publish(channel, message);
  }

  forgetScripts(): void {
    this.world.log(() => `${this.name} forgets its scripts`);
    this.#known = new Map();
  }

  /** It is gone, and comes back after `ms`; `isSilent`: its machine is also gone, and clients are not notified. */
  crash(ms: number, losesData: boolean, isSilent: boolean, loadingMs: number): void {
    if (this.reach !== 'accepts') return;
    const { world, rng } = this;
    world.log(() => `${this.name} dies for ${ms.toFixed(0)} ms${losesData ? ' and loses its data' : ''}`);
    this.reach = isSilent ? 'vanished' : 'refuses';
    this.member?.onDown();
    for (const socket of this.sockets) {
      if (isSilent) socket.closeServer();
      else world.after(rng.float(0, 1), null, 'server', () => socket.closeServer(true));
    }
    world.after(ms, null, 'server', () => this.#start(losesData, loadingMs));
  }

  #start(losesData: boolean, loadingMs: number): void {
    const { world } = this;
    for (const socket of this.sockets) socket.closeServer();
    this.starts += 1;
    this.reach = 'accepts';
    this.forgetScripts();
    this.#freeAt = world.now;
    this.isLoading = loadingMs > 0;
    if (this.isLoading) world.after(loadingMs, null, 'server', () => (this.isLoading = false));
    if (losesData) {
      this.data = new Map();
      this.wipes.push(world.now);
      this.watch.onWiped(this);
    }
    this.member?.onUp();
    world.log(() => `${this.name} is back`);
  }
}
