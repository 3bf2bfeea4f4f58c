import { type LockHistoryBatch, type LockHistoryEntry, NO_FACTS } from '../../../../lib/core/history/history-entry.js';
import { QuorumHistory } from '../../../../lib/redis/quorum/quorum-history.js';
import { type QuorumNode } from '../../../../lib/redis/quorum/quorum-node.js';
import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { FakeClock, settled } from '../../../support/core/fake-clock.js';
import { gate } from '../../../support/waiting/gate.js';
import { rejection } from '../../../support/waiting/rejection.js';

const batchOf = (id: string): LockHistoryBatch => ({
  id,
  host: 'host',
  pid: 1,
  now: 0,
  maxEntries: 100,
  keepMs: 60_000,
  records: [{ ...NO_FACTS, event: 'acquired', key: 'k', at: 0 }],
});

describe('the history of a quorum', () => {
  it('is sent again only to the nodes that did not confirm it', async () => {
    const asked: string[] = [];
    const away = new Set(['n2', 'n3']);
    const nodes = ['n1', 'n2', 'n3'].map((name) => {
      const ask = async (): Promise<void> => {
        asked.push(name);
        if (away.has(name)) throw new Error(`${name} is away`);
      };
      return { name, ask } as unknown as QuorumNode;
    });
    const history = new QuorumHistory(nodes, new FakeClock());
    expect(await rejection(history.append(batchOf('a.1')))).toMatchObject({ code: 'LOCK_STORE' });
    away.clear();
    await history.append(batchOf('a.1'));
    await history.append(batchOf('a.2'));
    expect(asked).toEqual(['n1', 'n2', 'n3', 'n2', 'n3', 'n1', 'n2', 'n3']);
  });

  const entryOf = (id: string, ms: number): LockHistoryEntry => ({
    ...NO_FACTS,
    id,
    at: new Date(ms),
    event: 'acquired',
    host: 'host',
    pid: 1,
    key: 'k',
    keys: ['k'],
  });

  /** Nodes whose histories the test gives; null: it hangs. */
  function quorumOf(
    ...answers: readonly (readonly LockHistoryEntry[] | Error | Promise<readonly LockHistoryEntry[]> | null)[]
  ) {
    const clock = new FakeClock();
    const nodes = answers.map((answer, i) => {
      const askPatiently = async (): Promise<readonly LockHistoryEntry[]> => {
        if (answer instanceof Error) throw answer;
        return answer ?? new Promise(() => undefined);
      };
      return { name: `n${i + 1}`, askPatiently, isAway: false } as unknown as QuorumNode;
    });
    return { clock, history: new QuorumHistory(nodes, clock) };
  }

  it('is that of a majority when a master does not answer', async () => {
    const { clock, history } = quorumOf([entryOf('a.1', 1)], [entryOf('a.2', 2), entryOf('a.1', 1)], null);
    const reading = history.read({ limit: 10 });
    await settled();
    await clock.advance(1_000);
    expect((await reading).map(({ id }) => id)).toEqual(['a.2', 'a.1']);
  });

  it('has an entry at the earliest of its times, in whatever order the masters answer', async () => {
    // Each master adds an entry at its own time. Asked for entries before a time, each filters by that time.
    const early = [entryOf('a.2', 19), entryOf('a.1', 10)];
    const late = [entryOf('a.2', 20), entryOf('a.1', 11)];
    for (const answers of [
      [early, late, late],
      [late, early, late],
      [late, late, early],
    ]) {
      const entries = await quorumOf(...answers).history.read({ limit: 10 });
      expect(entries.map(({ id, at }) => [id, at.getTime()])).toEqual([
        ['a.2', 19],
        ['a.1', 10],
      ]);
    }
  });

  it('is awaited for the time of several commands, until a majority has answered', async () => {
    const slow = gate();
    const late = slow.opened.then(() => [entryOf('a.1', 1)]);
    const { clock, history } = quorumOf(late, late, null);
    const reading = history.read({ limit: 10 });
    await settled();
    await clock.advance(20_000);
    slow.open();
    expect((await reading).map(({ id }) => id)).toEqual(['a.1']);
  });

  it('cannot be read as soon as a majority has failed, or when the time for all of it is over', async () => {
    const away = new LockStoreError('it is away');
    const message = expect.stringMatching(
      /^Only 0 of 3 masters answered when asked to read the history of the locks, and a majority of 2 is needed\./,
    );
    const failed = quorumOf(away, away, null);
    expect(await rejection(failed.history.read({ limit: 10 }))).toMatchObject({ key: undefined, message });
    const hanging = quorumOf(null, null, null);
    const reading = rejection(hanging.history.read({ limit: 10 }));
    await settled();
    await hanging.clock.advance(1_000);
    await hanging.clock.advance(30_000);
    expect(await reading).toMatchObject({ message });
  });
});
