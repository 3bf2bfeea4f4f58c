import { HistoryBuffer } from '../../../lib/core/history/history-buffer.js';
import { type LockHistoryBatch, NO_FACTS } from '../../../lib/core/history/history-entry.js';
import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { TimerQueue } from '../../../lib/core/timer-queue.js';
import { FakeClock, settled } from '../../support/core/fake-clock.js';
import { FakeReporter } from '../../support/core/fake-store.js';
import { gate } from '../../support/waiting/gate.js';

const AWAY = new LockStoreError('Redis is away.', { retryable: true });

function setUp() {
  const [clock, reporter] = [new FakeClock(), new FakeReporter()];
  const timers = new TimerQueue(clock);
  const batches: LockHistoryBatch[] = [];
  const store = { append: async (_batch: LockHistoryBatch): Promise<void> => undefined };
  const buffer = new HistoryBuffer({
    clock,
    timers,
    reporter,
    terms: { host: 'host', pid: 1, maxEntries: 100, keepMs: 60_000 },
    clientId: 'client',
    append: async (batch) => {
      batches.push(batch);
      return store.append(batch);
    },
  });
  const add = (count: number, key = 'k'): void => {
    for (let i = 0; i < count; i += 1)
      buffer.add({ ...NO_FACTS, event: 'acquired', key: `${key}${i}`, keys: [`${key}${i}`] });
  };
  const fail = (error: unknown): void => {
    store.append = () => Promise.reject(error);
  };
  const work = (): void => {
    store.append = () => Promise.resolve();
  };
  const pass = async (ms: number): Promise<void> => {
    await clock.advance(ms);
    await settled();
  };
  const dropped = () => batches.flatMap(({ records }) => records).filter(({ event }) => event === 'dropped');
  const written = (): readonly string[] => batches.flatMap(({ records }) => records.map(({ key }) => key));
  return { clock, timers, reporter, batches, store, buffer, add, fail, work, pass, written, dropped };
}

describe('the buffer of the history', () => {
  it('writes what happens within a tenth of a second in one batch, with its times', async () => {
    const { buffer, batches, timers, add, pass, clock } = setUp();
    expect(timers.size).toBe(0);
    add(2);
    await pass(60);
    add(1, 'later');
    expect(batches).toEqual([]);
    await pass(40);
    expect(batches).toHaveLength(1);
    const [{ id, now, records, ...terms }] = batches as [LockHistoryBatch];
    expect(terms).toEqual({ host: 'host', pid: 1, maxEntries: 100, keepMs: 60_000 });
    expect(id).toBe('client.1');
    expect(records.map(({ at }) => now - at)).toEqual([100, 100, 40]);
    expect([now, buffer.size, timers.size]).toEqual([clock.now(), 0, 0]);
  });

  it('writes many at once, in batches of 200 and one after the other', async () => {
    const { store, batches, add, pass, written } = setUp();
    const answer = gate();
    store.append = () => answer.opened;
    add(450);
    await pass(0);
    expect(batches.map(({ records }) => records.length)).toEqual([200]);
    await pass(1_000);
    expect(batches).toHaveLength(1);
    answer.open();
    await pass(100);
    expect(batches.map(({ records }) => records.length)).toEqual([200, 200, 50]);
    expect(written()).toEqual(Array.from({ length: 450 }, (_, i) => `k${i}`));
  });

  it('writes the same batch again after a failure, a second later', async () => {
    const { batches, add, fail, work, pass } = setUp();
    fail(AWAY);
    add(1);
    await pass(100);
    add(1, 'later');
    await pass(999);
    expect(batches).toHaveLength(1);
    work();
    await pass(1);
    expect(batches).toHaveLength(2);
    expect(batches[1]).toEqual({ ...batches[0], now: batches[0]!.now + 1_000 });
    await pass(100);
    expect(batches[2]).toMatchObject({ id: 'client.2', records: [{ key: 'later0' }] });
  });

  it('drops entries above its limit, reports that once, and writes their number as soon as it can', async () => {
    const { buffer, reporter, add, fail, work, pass, written, dropped } = setUp();
    fail(AWAY);
    add(1);
    await pass(100);
    add(2_000, 'kept');
    add(500, 'too much');
    expect([buffer.size, reporter.lines]).toEqual([
      2_001,
      [
        'warn The history of locks drops entries, since 2000 wait to be written: Redis is away. A later entry has their number. No lock is affected.',
      ],
    ]);
    work();
    await pass(10_000);
    expect([written().filter((key) => key.startsWith('too')), new Set(written()).size]).toEqual([[], 2_002]);
    expect(dropped()).toEqual([expect.objectContaining({ key: '', count: 500 })]);
  });

  it('keeps long texts up to a length, whatever their number', async () => {
    const { buffer, reporter, add, fail, work, pass, dropped } = setUp();
    fail(AWAY);
    add(1);
    await pass(100);
    add(1_100, 'k'.repeat(999));
    // Each of them has a number of one to four digits behind its thousand letters.
    expect(buffer.size).toBe(1 + 998);
    expect(reporter.lines).toEqual([expect.stringContaining('drops entries, since 998 wait to be written')]);
    work();
    await pass(10_000);
    expect([dropped(), buffer.size]).toEqual([[expect.objectContaining({ count: 102 })], 0]);
  });

  it('writes long texts in shorter batches, and one that is longer than a batch alone', async () => {
    const { buffer, batches, add, pass } = setUp();
    add(99, 'k'.repeat(998));
    await pass(0);
    expect(batches).toEqual([]);
    add(1, 'k'.repeat(200_000));
    add(1, 'last');
    await pass(0);
    await pass(100);
    expect(batches.map(({ records }) => records.length)).toEqual([99, 1, 1]);
    expect(buffer.size).toBe(0);
  });

  it('writes how many entries were dropped when it is closed just then', async () => {
    const { buffer, add, fail, work, pass, dropped } = setUp();
    fail(AWAY);
    add(1);
    await pass(100);
    add(2_005);
    work();
    await buffer.close();
    expect(dropped()).toEqual([expect.objectContaining({ count: 5 })]);
  });

  it('reports once in each outage why it cannot write, unless the store is away: the locks report that', async () => {
    const { reporter, add, fail, work, pass } = setUp();
    const line = 'warn The history of locks cannot be written: NOPERM xadd. No lock is affected.';
    const refused = new LockStoreError('NOPERM xadd.', { retryable: false });
    for (const [error, lines] of [[refused, 1], [AWAY, 1], [refused, 2]] as const) {
      fail(error);
      add(1);
      await pass(5_000);
      work();
      await pass(1_000);
      add(1);
      await pass(100);
      expect(reporter.lines).toEqual(Array.from({ length: lines }, () => line));
    } // prettier-ignore
  });

  it('can be flushed, and gives up at the first failure', async () => {
    const { buffer, batches, add, fail } = setUp();
    const sizes = () => batches.splice(0).map(({ records }) => records.length);
    add(210);
    await buffer.flush();
    expect(sizes()).toEqual([200, 10]);
    add(250, 'k'.repeat(996));
    await buffer.flush();
    expect(sizes()).toEqual([100, 100, 50]);
    fail(AWAY);
    add(210);
    await buffer.flush();
    expect([sizes(), buffer.size]).toEqual([[200], 210]);
  });

  it('writes the rest when it is closed, and accepts no more', async () => {
    const { buffer, timers, reporter, add, written } = setUp();
    add(3);
    await buffer.close();
    add(1, 'late');
    expect(written()).toEqual(['k0', 'k1', 'k2']);
    expect([buffer.size, timers.size, reporter.lines]).toEqual([0, 0, []]);
  });

  it('waits no longer than a quarter of a second when it is closed, and reports what is missing', async () => {
    const { buffer, timers, reporter, store, add, pass } = setUp();
    store.append = () => new Promise(() => undefined);
    add(3);
    let isClosed = false;
    void buffer.close().then(() => (isClosed = true));
    await pass(249);
    expect(isClosed).toBe(false);
    await pass(1);
    expect(isClosed).toBe(true);
    expect(reporter.lines).toEqual(['warn Entries of the history of locks not confirmed when the app ended: 3.']);
    expect(timers.size).toBe(0);
  });
});
