import { type Server, type Socket, connect, createServer } from 'node:net';
import { type Frame, FrameReader, commandText } from './resp-frames.js';

const HOST = '127.0.0.1';

/** A network between a client and Redis that can be broken on purpose. */
export interface TcpProxy {
  readonly port: number;
  readonly url: string;
  /** The delay of a message, each way. It may change at any time; messages stay in order. */
  delayMs: number;
  /** How many replies `dropNextReply` has lost. */
  readonly droppedReplies: number;
  /** Closes all connections; new ones are accepted. */
  cutAll(): void;
  /**
   * Half-open: nothing passes, no end of a connection either, and new connections are accepted but dead. What is
   * sent meanwhile is lost, so that afterwards each connection that lost something closes instead of continuing.
   */
  blackhole(on: boolean): void;
  /**
   * Lets the next command pass that matches (its words parted by blanks), then loses its reply and closes the
   * connection. Not for connections that subscribe in RESP2: messages look like replies there.
   */
  dropNextReply(matches: (commandText: string) => boolean): void;
  /** Holds the next matching command back and closes its connection; the server gets it when the test delivers it. */
  keepNext(matches: (commandText: string) => boolean): KeptCommand;
  /** Resets new connections at once; existing ones continue. */
  refuse(on: boolean): void;
  /** Leads new connections to another server on this machine, like a DNS name that moves; existing ones continue. */
  leadTo(port: number): void;
  close(): Promise<void>;
}

/** A command that is late. */
export interface KeptCommand {
  /** Whether it has come, and its client's connection is gone. */
  readonly isKept: boolean;
  /** Has it arrive; resolves when the server has answered it. */
  deliver(): Promise<void>;
}

/** Starts a proxy on a free port in front of a server on this machine. */
export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const healthy = { delayMs: 0, blackhole: false, refuse: false, droppedReplies: 0, losesReplyOf: undefined };
  const faults: Faults = { ...healthy, keeps: undefined, targetPort };
  const links = new Set<Link>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    if (faults.refuse) client.resetAndDestroy();
    else links.add(new Link(client, faults, (link) => links.delete(link)));
  });
  const port = await listen(server);
  const cutAll = () => links.forEach((link) => link.cut());
  return {
    port,
    url: `redis://${HOST}:${port}`,
    get delayMs() {
      return faults.delayMs;
    },
    set delayMs(delayMs) {
      faults.delayMs = delayMs;
    },
    get droppedReplies() {
      return faults.droppedReplies;
    },
    cutAll,
    blackhole(on) {
      faults.blackhole = on;
      if (!on) links.forEach((link) => link.cutIfIncomplete());
    },
    keepNext: (matches) => (faults.keeps = new Kept(matches)),
    dropNextReply: (matches) => (faults.losesReplyOf = matches),
    refuse: (on) => (faults.refuse = on),
    leadTo: (port) => (faults.targetPort = port),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        cutAll();
      }),
  };
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject).listen(0, HOST, () => {
      const address = server.address();
      if (address && typeof address === 'object') resolve(address.port);
    });
  });
}

interface Faults {
  targetPort: number;
  delayMs: number;
  blackhole: boolean;
  refuse: boolean;
  droppedReplies: number;
  losesReplyOf: ((commandText: string) => boolean) | undefined;
  keeps: Kept | undefined;
}

class Kept implements KeptCommand {
  onAnswer = (): void => undefined;
  #deliver: (() => void) | undefined;

  constructor(readonly matches: (commandText: string) => boolean) {}

  get isKept(): boolean {
    return this.#deliver !== undefined;
  }

  keep(deliver: () => void): void {
    this.#deliver = deliver;
  }

  async deliver(): Promise<void> {
    if (!this.#deliver) throw new Error('No such command has come yet.');
    const answered = new Promise<void>((resolve) => (this.onAnswer = resolve));
    this.#deliver();
    await answered;
  }
}

/** One connection of a client, and the one to the server behind it. */
class Link {
  readonly #toServer: OneWay;
  readonly #toClient: OneWay;
  readonly #server: Socket | undefined;
  #incomplete = false;
  #commands = 0;
  #replies = 0;
  #lostReply: number | undefined;
  #kept: Kept | undefined;

  constructor(
    private readonly client: Socket,
    private readonly faults: Faults,
    private readonly onGone: (link: Link) => void,
  ) {
    this.#toServer = new OneWay(faults);
    this.#toClient = new OneWay(faults);
    this.#incomplete = faults.blackhole;
    this.#server = faults.blackhole
      ? undefined
      : connect({ port: faults.targetPort, host: HOST, allowHalfOpen: true, noDelay: true });
    this.#join(client, this.#server, this.#toServer, (frame) => this.#command(frame));
    if (this.#server) this.#join(this.#server, client, this.#toClient, (frame) => this.#reply(frame));
  }

  cut(): void {
    this.#toServer.clear();
    this.#toClient.clear();
    this.client.destroy();
    this.#server?.destroy();
    this.onGone(this);
  }

  cutIfIncomplete(): void {
    if (this.#incomplete) this.cut();
  }

  /** Carries what one side sends to the other, in order: messages, then the end. */
  #join(from: Socket, to: Socket | undefined, way: OneWay, sees: (frame: Frame) => boolean): void {
    const reader = new FrameReader();
    const send = (deliver: () => void) => this.#unlessLost(() => way.push(() => this.#unlessLost(deliver)));
    from.on('data', (bytes) => {
      for (const frame of reader.push(bytes)) {
        if (from === this.client && this.#keeps(frame)) return;
        if (!sees(frame)) return this.cut();
        send(() => to?.writable && to.write(frame.bytes));
      }
    });
    from.on('end', () => send(() => to?.end()));
    from.on('error', () => this.#unlessLost(() => this.cut()));
    from.on('close', () => {
      if (this.client.destroyed && (this.#server?.destroyed ?? true)) this.onGone(this);
    });
  }

  /** Whether this command is held back, while its client loses the connection. */
  #keeps(frame: Frame): boolean {
    const { keeps } = this.faults;
    if (!keeps || this.#kept || !keeps.matches(commandText(frame))) return this.#kept !== undefined;
    this.faults.keeps = undefined;
    this.#kept = keeps;
    keeps.keep(() => this.#server?.write(frame.bytes));
    this.client.destroy();
    return true;
  }

  #unlessLost(pass: () => void): void {
    if (this.faults.blackhole) this.#incomplete = true;
    else pass();
  }

  #command(frame: Frame): boolean {
    if (this.faults.blackhole) return true;
    this.#commands++;
    if (this.faults.losesReplyOf?.(commandText(frame))) {
      this.faults.losesReplyOf = undefined;
      this.#lostReply = this.#commands;
    }
    return true;
  }

  /** False when this reply is the one to lose. Push messages answer no command. */
  #reply(frame: Frame): boolean {
    if (this.#kept) this.#kept.onAnswer();
    if (frame.type === '>' || ++this.#replies !== this.#lostReply) return true;
    this.faults.droppedReplies++;
    return false;
  }
}

/** One direction of a connection: what is sent first arrives first, however the delay changes. */
class OneWay {
  #queue: { readonly due: number; readonly deliver: () => void }[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly faults: Faults) {}

  push(deliver: () => void): void {
    this.#queue.push({ due: performance.now() + this.faults.delayMs, deliver });
    this.#deliverDue();
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#queue = [];
  }

  #deliverDue(): void {
    clearTimeout(this.#timer);
    while (this.#queue[0] && this.#queue[0].due <= performance.now()) this.#queue.shift()!.deliver();
    const next = this.#queue[0];
    if (next) this.#timer = setTimeout(() => this.#deliverDue(), next.due - performance.now());
  }
}
