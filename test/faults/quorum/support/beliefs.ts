import { type Lock } from '../../../../lib/index.js';

/** Whether its holder goes on: what the lock tells is all that it can know. */
const believes = ({ held, signal }: Lock): boolean => held && !signal.aborted;

/** What the holds of one key have shown so far. */
interface KeyHistory {
  readonly inside: Set<Lock>;
  /** The greatest tokens of the holds that have begun. */
  writerToken: number;
  anyToken: number;
  /** The greatest token that the fenced register has seen. */
  register: number;
}

/**
 * Watches all holders of this process: who believes to hold a lock must not believe it together with a writer, and
 * whoever writes has a greater token than all before.
 */
export class Beliefs {
  readonly violations: string[] = [];
  checks = 0;
  readonly #histories = new Map<string, KeyHistory>();

  enter(lock: Lock): void {
    for (const [i, key] of lock.keys.entries()) {
      const history = this.#of(key);
      history.inside.add(lock);
      if (believes(lock)) this.#checkToken(lock, key, lock.fencingTokens[i]!);
    }
    this.check(lock);
  }

  /** To be called while the holder works. */
  check(lock: Lock): void {
    if (!believes(lock)) return;
    this.checks += 1;
    for (const [i, key] of lock.keys.entries()) {
      const history = this.#of(key);
      for (const other of history.inside) this.#checkPair(lock, other, key);
      const token = lock.fencingTokens[i]!;
      if (lock.mode !== 'write') continue;
      if (token < history.register) this.violations.push(`${key}: the register refused ${token}`);
      history.register = Math.max(history.register, token);
    }
  }

  leave(lock: Lock): void {
    for (const key of lock.keys) this.#of(key).inside.delete(lock);
  }

  #checkPair(lock: Lock, other: Lock, key: string): void {
    if (other === lock || !believes(other)) return;
    if (lock.mode === 'read' && other.mode === 'read') return;
    const tell = ({ mode, fencingToken, remainingMs }: Lock) => `${mode} ${fencingToken} (${remainingMs} ms left)`;
    this.violations.push(`${key}: held twice, ${tell(lock)} and ${tell(other)}`);
  }

  /** Readers share, and begin in no certain order. */
  #checkToken({ mode }: Lock, key: string, token: number): void {
    const history = this.#of(key);
    const before = mode === 'write' ? history.anyToken : history.writerToken;
    if (token <= before) this.violations.push(`${key}: ${mode} got ${token} after ${before}`);
    history.anyToken = Math.max(history.anyToken, token);
    if (mode === 'write') history.writerToken = Math.max(history.writerToken, token);
  }

  #of(key: string): KeyHistory {
    const history = this.#histories.get(key) ?? { inside: new Set(), writerToken: 0, anyToken: 0, register: 0 };
    this.#histories.set(key, history);
    return history;
  }
}
