import 'reflect-metadata';
import { Observable, lastValueFrom, of } from 'rxjs';
import { Locked } from '../../../lib/index.js';
import { collectGarbage } from '../../support/waiting/collect-garbage.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

/** Retained work costs 900 bytes for each round, and 50 for each call; the heap itself varies by more than that. */
const ROUNDS = { warmUp: 500, counted: 3_000, maxBytes: 300 };
const CALLS = { warmUp: 4_000, counted: 6_000, times: 5, maxBytes: 40, atOnce: 100 };

async function heapUsed(): Promise<number> {
  for (let i = 0; i < 3; i += 1) await collectGarbage();
  return process.memoryUsage().heapUsed;
}

const { signal } = new AbortController();

class Feed {
  @Locked('feed:<0>', { signal })
  read(_id: number): Observable<number> {
    return of(1);
  }
}

describe('promise 10: an app that runs forever', () => {
  jest.setTimeout(240_000);
  afterEach(closeAll);

  it('keeps nothing of work that started inside a lock and keeps acquiring it again', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    /** In the middle and at the end of one chain of calls: whatever it keeps is gone when it is over. */
    const [before, after] = await new Promise<number[]>((resolve, reject) => {
      const heaps: number[] = [];
      const next = async (round: number): Promise<void> => {
        if (round === ROUNDS.warmUp || round === ROUNDS.warmUp + ROUNDS.counted) heaps.push(await heapUsed());
        if (heaps.length === 2) return resolve(heaps);
        await locks.withLock(key, () => void setImmediate(() => void next(round + 1).catch(reject)));
      };
      next(1).catch(reject);
    });
    expect(after! - before!).toBeLessThan(ROUNDS.counted * ROUNDS.maxBytes);
  });

  it('keeps nothing on a long-lived signal in the options of a decorator', async () => {
    const { app } = await startApp({}, { providers: [Feed] });
    const feed = app.get(Feed);
    const call = async (count: number): Promise<void> => {
      for (let called = 0; called < count; called += CALLS.atOnce) {
        await Promise.all(Array.from({ length: CALLS.atOnce }, (_, id) => lastValueFrom(feed.read(id))));
      }
    };
    await call(CALLS.warmUp);
    const growths: number[] = [];
    for (let time = 0; time < CALLS.times; time += 1) {
      const before = await heapUsed();
      await call(CALLS.counted);
      growths.push((await heapUsed()) - before);
    }
    // What is retained grows each time; code that is compiled meanwhile takes memory once.
    const [, , median] = growths.toSorted((a, b) => a - b);
    expect(median).toBeLessThan(CALLS.counted * CALLS.maxBytes);
  });
});
