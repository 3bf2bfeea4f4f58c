import { type LockHistoryBatch, NO_FACTS } from '../../../../lib/core/history/history-entry.js';
import { QuorumHistory } from '../../../../lib/redis/quorum/quorum-history.js';
import { type QuorumNode } from '../../../../lib/redis/quorum/quorum-node.js';
import { FakeClock } from '../../../support/core/fake-clock.js';
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
    const history = new QuorumHistory(nodes, new FakeClock(), async () => []);
    expect(await rejection(history.append(batchOf('a.1')))).toMatchObject({ code: 'LOCK_STORE' });
    away.clear();
    await history.append(batchOf('a.1'));
    await history.append(batchOf('a.2'));
    expect(asked).toEqual(['n1', 'n2', 'n3', 'n2', 'n3', 'n1', 'n2', 'n3']);
  });
});
