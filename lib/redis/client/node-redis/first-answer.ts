import { type Clock } from '../../../core/clock.js';
import { type ClientParts } from '../client-library.js';
import { type ConnectionPlan, OwnConnection } from './own-connection.js';

interface Questions<T, A> {
  readonly candidates: readonly T[];
  /** `stop`: the answer is of no use any more. */
  readonly ask: (candidate: T, stop: AbortSignal) => Promise<A>;
  /** How long one is waited for before the next one is asked, too. */
  readonly patienceMs: number;
  /** How long one may take in all. */
  readonly limitMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onFailure: (candidate: T, error: Error) => void;
}

/**
 * Asks one candidate after the other, and does not wait for long for one that hangs: resolves with the first answer, and rejects with
 * the last error when there is none.
 */
export async function firstAnswer<T, A>(questions: Questions<T, A>): Promise<A> {
  const over = new AbortController();
  try {
    return await new Promise<A>((resolve, reject) => {
      const fail = (): void => reject(new Error('the connection was closed'));
      questions.signal.addEventListener('abort', fail, { signal: over.signal });
      new Inquiry(questions, over.signal, resolve, reject).askNext();
    });
  } finally {
    over.abort();
  }
}

class Inquiry<T, A> {
  #next = 0;
  #pending = 0;
  #lastError = new Error('no address is known');

  constructor(
    private readonly questions: Questions<T, A>,
    private readonly over: AbortSignal,
    private readonly resolve: (answer: A) => void,
    private readonly reject: (error: Error) => void,
  ) {}

  askNext(): void {
    const { candidates, clock, patienceMs, onFailure } = this.questions;
    if (this.over.aborted) return;
    if (this.#next === candidates.length) {
      if (this.#pending === 0) this.reject(this.#lastError);
      return;
    }
    const candidate = candidates[this.#next]!;
    this.#next += 1;
    this.#pending += 1;
    const cancelPatience = clock.setTimer(() => this.askNext(), patienceMs);
    void this.#ask(candidate).then(this.resolve, (error: Error) => {
      cancelPatience();
      this.#pending -= 1;
      this.#lastError = error;
      if (this.over.aborted) return;
      onFailure(candidate, error);
      this.askNext();
    });
  }

  /** Rejects at the limit, or when another one has answered. */
  async #ask(candidate: T): Promise<A> {
    const { ask, clock, limitMs } = this.questions;
    const stop = new AbortController();
    const end = (): void => stop.abort();
    const cancel = clock.setTimer(end, limitMs);
    this.over.addEventListener('abort', end);
    try {
      return await Promise.race([ask(candidate, stop.signal), rejectionBy(stop.signal)]);
    } finally {
      cancel();
      this.over.removeEventListener('abort', end);
      end();
    }
  }
}

const rejectionBy = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new Error('no answer in time')));
  });

/** Sends one command by a connection of its own. */
export async function askOnce(
  plan: ConnectionPlan,
  parts: ClientParts,
  args: readonly string[],
  stop: AbortSignal,
): Promise<unknown> {
  const connection = new OwnConnection({ ...plan, endsForGood: true }, parts);
  stop.addEventListener('abort', () => connection.disconnect());
  try {
    await connection.connect();
    return await connection.send(args);
  } finally {
    connection.disconnect();
  }
}
