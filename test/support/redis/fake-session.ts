import {
  type ConnectionPlan,
  type Operands,
  type Session,
  type SessionListener,
  unsentError,
} from '../../../lib/redis/client/redis-client.js';
import { type ServerAddress } from '../../../lib/redis/client/server-address.js';

/** What a server answers: a value, a promise, or an error, which is thrown. */
export type Answering = (words: Operands) => unknown;

/** A server that accepts the connection, and does not answer. */
export const SILENT = Symbol('silent');

/** A session of a library with a server that a test makes up; it is ready at once, unless it answers 'connect' with `SILENT`. */
export class FakeSession implements Session {
  isWritable = true;
  readonly sent: string[] = [];

  constructor(
    readonly listener: SessionListener,
    private readonly answer: Answering,
    readonly peer: ServerAddress | null = null,
  ) {}

  async send(words: Operands): Promise<unknown> {
    if (!this.isWritable) throw unsentError();
    this.sent.push(words.join(' '));
    const answer = await this.answer(words);
    if (answer instanceof Error) throw answer;
    return answer;
  }

  subscribe(channel: string): Promise<unknown> {
    return this.send(['subscribe', channel]);
  }

  async end(): Promise<void> {
    this.isWritable = false;
  }
}

/** The plan of a connection whose sessions a test has at hand. */
export function planOfFake(
  at: ServerAddress,
  answer: Answering,
  sessions: FakeSession[] = [],
): ConnectionPlan & { readonly target: { open(listener: SessionListener): FakeSession } } {
  const open = (listener: SessionListener): FakeSession => {
    const session = new FakeSession(listener, answer, at);
    sessions.push(session);
    queueMicrotask(() => {
      const how = answer(['connect']);
      if (how instanceof Error) return listener.onOver(how);
      listener.onConnected();
      if (how !== SILENT) listener.onReady();
    });
    return session;
  };
  return { address: `${at.host}:${at.port}`, endsForGood: false, connectTimeout: 3_000, target: { open } };
}
