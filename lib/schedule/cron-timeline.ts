const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How far back to look for a fire. The short windows come first: most calls are made by the timer itself. */
const WINDOWS = [2 * SECOND, MINUTE, HOUR, DAY, 8 * DAY, 32 * DAY, 366 * DAY, 5 * 366 * DAY];

/** The number of gaps between fires that are compared to find the shortest. */
const GAPS = 5;

/** The parts of a luxon DateTime that we use. */
export interface Moment {
  /** The offset from UTC, in minutes. */
  readonly offset: number;
  readonly zone: unknown;
  toMillis(): number;
  plus(duration: { readonly milliseconds: number }): Moment;
}

/** The parts of a CronTime of cron that we use. */
export interface CronTime {
  readonly source: string | { valueOf(): number };
  /** Whether the source is a date, which fires once. */
  readonly realDate: boolean;
  readonly timeZone?: string;
  /** In minutes. */
  readonly utcOffset?: number;
  sendAt(): Moment;
  getNextDateFrom(start: Date, zone: unknown): Moment;
}

/** A time of a schedule and the next one, in milliseconds since the epoch. */
export interface Fire {
  readonly atMs: number;
  readonly nextMs: number;
}

/** The times at which an expression fires, as the scheduler itself computes them. */
export class CronTimeline {
  /** A moment in the time zone of the expression. */
  readonly #moment: Moment;
  #last: Fire | undefined;

  constructor(private readonly cronTime: CronTime) {
    this.#moment = cronTime.sendAt();
  }

  /** Returns the latest fire up to `limitMs` (since the epoch); undefined if there was none within five years. */
  lastFire(limitMs: number): Fire | undefined {
    const last = this.#last;
    if (last && last.atMs <= limitMs) {
      if (limitMs < last.nextMs) return last;
      const afterMs = this.#next(last.nextMs);
      if (limitMs < afterMs) return (this.#last = { atMs: last.nextMs, nextMs: afterMs });
    }
    const foundMs = this.#search(limitMs);
    if (foundMs === undefined) return undefined;
    const atMs = this.#firstOfTwo(foundMs);
    return (this.#last = { atMs, nextMs: this.#next(atMs) });
  }

  shortestGapMs(fromMs: number): number {
    let atMs = this.#next(fromMs);
    let shortestMs = Infinity;
    for (let i = 0; i < GAPS; i += 1) {
      const nextMs = this.#next(atMs);
      shortestMs = Math.min(shortestMs, nextMs - atMs);
      atMs = nextMs;
    }
    return shortestMs;
  }

  /** Bisects: on a weekend, a walk from fire to fire of `* * 9-17 * * 1-5` would block the process for seconds. */
  #search(limitMs: number): number | undefined {
    const end = Math.floor(limitMs / SECOND) * SECOND;
    let none = end;
    for (const window of WINDOWS) {
      const start = end - window;
      if (this.#next(start) <= limitMs) return this.#bisect(start, none, limitMs);
      none = start;
    }
    return undefined;
  }

  /** The last fire up to the limit, if there is a fire after `some` and no fire after `none`; both are full seconds. */
  #bisect(some: number, none: number, limitMs: number): number {
    while (none - some > SECOND) {
      const middle = some + Math.floor((none - some) / 2 / SECOND) * SECOND;
      if (this.#next(middle) <= limitMs) some = middle;
      else none = middle;
    }
    return this.#next(some);
  }

  /**
   * A daily job that is due in the hour that autumn repeats fires in the first of the two hours. When called within the second
   * hour, the library also returns a time in that hour. All instances must agree, whether or not they ran through both hours.
   */
  #firstOfTwo(fireMs: number): number {
    const offset = this.#offsetAt(fireMs);
    if (this.#offsetAt(fireMs - HOUR) <= offset) return fireMs;
    let changeMs = Math.floor(fireMs / MINUTE) * MINUTE;
    while (this.#offsetAt(changeMs - MINUTE) === offset) changeMs -= MINUTE;
    const before = this.#search(changeMs - 1);
    return before === undefined || this.#next(before) <= fireMs ? fireMs : before;
  }

  #next(startMs: number): number {
    const moment = this.cronTime.getNextDateFrom(new Date(startMs), this.#moment.zone);
    const nextMs = moment.toMillis();
    if (nextMs > startMs) return nextMs;
    // For a wall-clock time that autumn repeats, luxon takes the one with today's offset, which may be the first.
    const repeatedMs = (moment.offset - this.#offsetAt(startMs)) * MINUTE;
    return Math.max(nextMs + repeatedMs, startMs + SECOND);
  }

  #offsetAt(ms: number): number {
    return this.#moment.plus({ milliseconds: ms - this.#moment.toMillis() }).offset;
  }
}
