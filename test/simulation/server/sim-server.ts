import { type ScriptModel } from '../../support/model/script-model.js';
import { type ServerEnd, type Socket } from '../network/socket.js';
import { type Rng } from '../world/rng.js';
import { EPOCH_MS } from '../world/sim-process.js';
import { type World } from '../world/world.js';
import { ReplyError } from './reply-error.js';
import { type ScriptCall, type ServerScripts } from './server-scripts.js';
import { Subscriptions } from './subscriptions.js';

/** Receives what a server does to its locks. */
export interface ServerWatch {
  beforeScript(server: SimServer, call: ScriptCall): void;
  afterScript(server: SimServer, call: ScriptCall, reply: readonly (string | number)[]): void;
  onWiped(server: SimServer): void;
}

/** How a server behaves when nothing is wrong with it. */
export interface ServerSettings {
  readonly rate: number;
  readonly offsetMs: number;
}

type Answer = (reply: unknown, error?: Error) => void;

/** One Redis: the model of the scripts, its subscribers, and a clock of its own. */
export class SimServer implements ServerEnd {
  reach: 'accepts' | 'refuses' | 'vanished' = 'accepts';
  /** It changes with each start, as the run id of a real server. */
  starts = 1;
  model: ScriptModel;
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
  #known = new Set<string>();
  #clockOffset: number;
  #freeAt = 0;
  /** The time of the script that runs now. */
  #fixedMicros: number | null = null;

  constructor(
    readonly id: number,
    readonly world: World,
    readonly rng: Rng,
    private readonly settings: ServerSettings,
    private readonly scripts: ServerScripts,
    private readonly watch: ServerWatch,
    private readonly newModel: (server: SimServer) => ScriptModel,
  ) {
    this.#clockOffset = settings.offsetMs;
    this.subscriptions = new Subscriptions(this);
    this.model = newModel(this);
  }

  get name(): string {
    return `S${this.id}`;
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

  /** Somebody sets its clock. */
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
  }

  /** Commands are carried out one after the other, in the order in which they arrived. */
  receive(socket: Socket, run: () => void): void {
    const { world } = this;
    const at = Math.max(world.now, this.stalledUntil, this.#freeAt);
    this.#freeAt = at + this.costMs;
    const { starts } = this;
    const now = (): void => {
      // A server that has died does nothing more.
      if (this.starts === starts && this.reach === 'accepts' && !socket.isServerClosed) run();
    };
    if (at > world.now) world.at(at, null, 'server', now);
    else now();
  }

  execute(socket: Socket, name: string, args: readonly unknown[], answer: Answer): void {
    this.commands += 1;
    const before = this.world.current;
    // What the server does is no work of a process.
    this.world.current = null;
    try {
      answer(this.#run(socket, name, args));
    } catch (error) {
      if ((error as Error).name !== 'ReplyError') throw error;
      this.world.log(() => `${this.name} refuses ${name} of ${socket.process.name}: ${(error as Error).message}`);
      answer(undefined, error as Error);
    } finally {
      this.world.current = before;
    }
  }

  #run(socket: Socket, name: string, args: readonly unknown[]): unknown {
    if (name === 'hello') return 'OK';
    if (name === 'info') return this.#info();
    if (this.isLoading) throw new ReplyError('LOADING Redis is loading the dataset in memory');
    if (name === 'time') return [`${Math.floor(this.micros / 1e6)}`, `${this.micros % 1e6}`];
    if (name === 'subscribe') return this.subscriptions.add(socket, args as string[]);
    if (name === 'evalsha' || name === 'eval') return this.#runScript(socket, name, args as string[]);
    throw new ReplyError(`ERR unknown command '${name}'`);
  }

  #info(): string {
    const loading = this.isLoading ? 'loading:1\r\n' : '';
    return `# Server\r\nrun_id:${this.runId}\r\n${loading}# Replication\r\nrole:master\r\n`;
  }

  #runScript(socket: Socket, by: 'evalsha' | 'eval', [which, ...operands]: readonly string[]): unknown {
    const call = this.scripts.read(by === 'eval' ? 'text' : 'sha1', which!, operands, socket.process);
    if (by === 'evalsha' && !this.#known.has(call.sha1)) {
      throw new ReplyError('NOSCRIPT No matching script. Please use EVAL.');
    }
    this.#known.add(call.sha1);
    this.#applyRefusal();
    this.#fixedMicros = this.micros;
    try {
      this.watch.beforeScript(this, call);
      const reply = this.model.run(call.name, call.values);
      this.world.digest.text(reply.join(' '));
      this.watch.afterScript(this, call, reply);
      return reply;
    } finally {
      this.#fixedMicros = null;
    }
  }

  /** A busy server refuses every script, the others refuse the first write of a script. */
  #applyRefusal(): void {
    const { refusal, model } = this;
    if (refusal?.startsWith('BUSY')) throw new ReplyError(refusal);
    model.isFull = refusal?.startsWith('OOM') ?? false;
    model.refusesWrites = model.isFull ? undefined : (refusal ?? undefined);
  }

  forgetScripts(): void {
    this.world.log(() => `${this.name} forgets its scripts`);
    this.#known = new Set();
  }

  /** It is gone, and comes back after `ms`; `isSilent`: its machine is gone, too, and nobody says so. */
  crash(ms: number, losesData: boolean, isSilent: boolean, loadingMs: number): void {
    if (this.reach !== 'accepts') return;
    const { world, rng } = this;
    world.log(() => `${this.name} dies for ${ms.toFixed(0)} ms${losesData ? ' and loses its data' : ''}`);
    this.reach = isSilent ? 'vanished' : 'refuses';
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
      this.model = this.newModel(this);
      this.wipes.push(world.now);
      this.watch.onWiped(this);
    }
    world.log(() => `${this.name} is back`);
  }
}
