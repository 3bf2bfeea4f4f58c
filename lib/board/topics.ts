import { type RedisLockService } from '../redis-lock.service.js';
import { type Job } from './jobs.js';
import { lockView, SHOWN_IN_LIST, SHOWN_OF_ONE } from './lock-views.js';
import { type OwnLosses } from './losses.js';

/** How many locks and jobs the lists show. */
const MAX_LOCKS = 500;
const MAX_JOBS = 200;

/** What the topics are read from. */
interface Sources {
  readonly service: Pick<RedisLockService, 'list' | 'inspect' | 'lastRun'>;
  readonly jobs: readonly Job[];
  readonly losses: Pick<OwnLosses, 'all'>;
}

/** Reads what pages show. */
export class BoardTopics {
  constructor(private readonly sources: Sources) {}

  /** All locks that are held or waited for. */
  async locks(): Promise<object> {
    const locks = [];
    // One more than is shown tells that there are more.
    for await (const state of this.sources.service.list({ limit: MAX_LOCKS + 1 })) {
      locks.push(lockView(state, SHOWN_IN_LIST, Date.now()));
    }
    return { locks: locks.slice(0, MAX_LOCKS), limit: MAX_LOCKS, hasMore: locks.length > MAX_LOCKS };
  }

  /** One lock, with its queue. */
  async lock(key: string): Promise<object> {
    return { lock: lockView(await this.sources.service.inspect(key), SHOWN_OF_ONE, Date.now()) };
  }

  /** The jobs of this app, with their last run. */
  async jobs(): Promise<object> {
    const jobs = await Promise.all(this.sources.jobs.slice(0, MAX_JOBS).map((job) => this.#job(job, Date.now())));
    return { jobs };
  }

  /** The losses of this instance. */
  async losses(): Promise<object> {
    return { losses: this.sources.losses.all };
  }

  async #job({ name, key, nextMs }: Job, nowMs: number): Promise<object> {
    const last = await this.sources.service.lastRun(key, name);
    const next = nextMs(nowMs);
    const due = { name, key, next, nextInMs: next === null ? null : Math.max(0, next - nowMs) };
    if (!last) return { ...due, last: null };
    const { fire, instance, started, ended, outcome } = last;
    const ranMs = Math.max(0, (ended?.getTime() ?? nowMs) - started.getTime());
    return { ...due, last: { fire: fire.getTime(), instance, outcome, ranMs } };
  }
}
