import { type Redis } from 'ioredis';
import { type Condition } from './random-steps.js';

/** Another value under the key of a lock. */
const STRANGER = 'mine';

/** Brings a server into a condition, and out of it again. Locks outlive all of them. */
export class Conditions {
  #current: Condition = 'none';

  constructor(
    private readonly redis: Redis,
    /** The last one is that under which something else may be. */
    private readonly keys: readonly string[],
  ) {}

  async change(next: Condition): Promise<void> {
    if (next === this.#current) return;
    await this.#set(this.#current, false);
    await this.#set(next, true);
    this.#current = next;
  }

  get current(): Condition {
    return this.#current;
  }

  /** Whether something else is under a key now. */
  hides(key: string): boolean {
    return this.#current === 'stranger' && key === this.keys.at(-1);
  }

  async #set(condition: Condition, on: boolean): Promise<void> {
    switch (condition) {
      case 'full':
        await this.redis.config('SET', 'maxmemory', on ? '1' : '0');
        break;
      case 'replica':
        // No server listens on that port: the data stays as it is.
        await (on ? this.redis.replicaof('127.0.0.1', 1) : this.redis.replicaof('NO', 'ONE'));
        break;
      case 'stranger':
        await this.#hide(this.keys.at(-1)!, on);
        break;
      default:
    }
  }

  async #hide(key: string, on: boolean): Promise<void> {
    const aside = `${key}:aside`;
    if (on) {
      if (await this.redis.exists(key)) await this.redis.rename(key, aside);
      await this.redis.set(key, STRANGER);
      return;
    }
    if ((await this.redis.get(key)) !== STRANGER) throw new Error(`${key} was written`);
    await this.redis.del(key);
    if (await this.redis.exists(aside)) await this.redis.rename(aside, key);
  }
}
