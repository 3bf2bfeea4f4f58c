import { readServerFacts } from '../../../../lib/redis/connection/server-facts.js';
import { unsafetyOf, warningsOf } from '../../../../lib/redis/connection/server-findings.js';

const SINGLE = { isCluster: false, findsMaster: false, minReplicas: 0 };
const WITH_HISTORY = { ...SINGLE, writesHistory: true };
const OF_CLUSTER = { ...SINGLE, isCluster: true, findsMaster: true };
const info = (...lines: string[]): string => ['# Server', ...lines, ''].join('\r\n');
const kindsOf = (text: string, use = SINGLE): string[] => {
  const facts = readServerFacts(text);
  const unsafe = unsafetyOf(facts, use);
  return [...(unsafe ? [`unsafe: ${unsafe.kind}`] : []), ...warningsOf(facts, use).map(({ kind }) => kind)];
};
const REPLICA = ['role:slave', 'master_host:a', 'master_port:1'];

describe('what a server reports about itself', () => {
  it.each([
    ['nothing', info(), SINGLE, []],
    ['no INFO at all', '+OK', SINGLE, []],
    ['a policy without a limit', info('maxmemory:0', 'maxmemory_policy:allkeys-lru'), SINGLE, []],
    ['a policy with a limit', info('maxmemory:9', 'maxmemory_policy:volatile-lru'), SINGLE, ['eviction']],
    ['an old version', info('redis_version:3.2.1'), SINGLE, ['version']],
    ['the oldest version that works', info('redis_version:5.0.0'), SINGLE, []],
    ['a version without a history', info('redis_version:6.0.20'), WITH_HISTORY, ['history']],
    ['the oldest version with a history', info('redis_version:6.2.0'), WITH_HISTORY, []],
    ['a later version with a history', info('redis_version:10.0.0'), WITH_HISTORY, []],
    ['a version without a history, while none is written', info('redis_version:6.0.20'), SINGLE, []],
    ['a version that is not one', info('redis_version:unstable'), SINGLE, []],
    ['a replica', info(...REPLICA, 'slave_read_only:1'), SINGLE, ['replica']],
    ['a writable replica', info(...REPLICA, 'slave_read_only:0'), SINGLE, ['unsafe: replica']],
    ['a replica that others watch', info(...REPLICA, 'slave_read_only:1'), { ...SINGLE, findsMaster: true }, []],
    ['a writable one', info(...REPLICA, 'slave_read_only:0'), { ...SINGLE, findsMaster: true }, ['unsafe: replica']],
    ['a writable one of a cluster', info(...REPLICA, 'slave_read_only:0'), OF_CLUSTER, []],
    ['a cluster node to a single client', info('redis_mode:cluster'), SINGLE, ['cluster']],
    ['a cluster node, in its own section', info('cluster_enabled:1'), SINGLE, ['cluster']],
    ['a cluster node to a cluster', info('cluster_enabled:1'), { ...SINGLE, isCluster: true }, []],
    ['too few replicas', info('connected_slaves:1'), { ...SINGLE, minReplicas: 2 }, ['replicas']],
    ['enough replicas', info('connected_slaves:2'), { ...SINGLE, minReplicas: 2 }, []],
    [
      'replicas that are not in step',
      info('connected_slaves:1', 'slave0:ip=::1,port=1,state=wait_bgsave,offset=0,lag=0'),
      { ...SINGLE, minReplicas: 1 },
      ['replicas'],
    ],
    ['a sentinel', info('redis_mode:sentinel'), SINGLE, ['unsafe: sentinel']],
    ['Garnet in a cluster', info('garnet_version:1.0'), { ...SINGLE, isCluster: true }, ['unsafe: garnet']],
  ])('%s', (_what, text, use, kinds) => {
    expect(kindsOf(text, use)).toEqual(kinds);
  });

  it('is printable and short for any input', () => {
    const { garnet } = readServerFacts(info(`garnet_version:\u001b[31m${'x'.repeat(1_000)}`));
    expect(garnet).toMatch(/^\\u001b/);
    expect(garnet!.length).toBeLessThan(120);
  });
});
