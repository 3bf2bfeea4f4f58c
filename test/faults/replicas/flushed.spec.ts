import { isCommand, ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';

describe('grants that replicas confirm', () => {
  afterEach(closeAll);

  it('are confirmed after SCRIPT FLUSH, also when it comes between the acquire and its confirmation', async () => {
    const master = await ownRedis();
    const replica = await ownRedis(['--replicaof', '127.0.0.1', String(master.port)]);
    const isOnline = async () => (await master.admin.info('replication')).includes('state=online');
    await eventually(isOnline, { timeoutMs: 20_000 });
    const proxy = await proxyTo(master.url);
    const { locks } = await startApp({ connection: proxy.url, minReplicas: 1 });
    await locks.withLock(freshKey(), () => undefined);
    await master.admin.script('FLUSH');
    const first = await locks.acquire(freshKey());
    const key = freshKey();
    const sent: string[] = [];
    // Long enough for the server to flush its scripts while a command is on its way.
    proxy.delayMs = 200;
    proxy.dropNextReply((text) => {
      if (isCommand('acquire')(text) && text.includes(key)) {
        sent.push(text.split(' ')[0]!);
        if (sent.length === 2) master.admin.script('FLUSH').catch(() => undefined);
      }
      return false;
    });
    const second = await locks.acquire(key);
    // The acquire, and its confirmation, for which the script was gone.
    expect(sent).toEqual(['evalsha', 'evalsha']);
    for (const { key: name, fencingToken } of [first, second]) {
      expect(JSON.stringify(await replica.admin.hgetall(`lock:${name}`))).toContain(String(fencingToken));
    }
  });
});
