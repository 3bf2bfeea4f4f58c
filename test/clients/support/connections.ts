import { systemClock } from '../../../lib/core/clock.js';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { closeAll, freshKey, openAdmin } from '../../support/apps/lock-app.js';
import { FakeReporter } from '../../support/core/fake-store.js';
import { ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { eventually } from '../../support/waiting/eventually.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { checkClient } from '../../../lib/redis/client/client-library.js';
import { type Subject, SubjectClients, connectionsBesides, recordOf, untilReady } from './subject.js';

const portOf = (url: string): number => Number(new URL(url).port);

/** How a client is named, and what becomes of it. */
export function connectionConformance(subject: Subject): void {
  describe('a connection', () => {
    afterEach(closeAll);

    it('of the module is idle, and connects on request', async () => {
      const { port, url } = await proxyTo();
      const client = new SubjectClients(subject).open(url);
      const record = recordOf(client);
      expect(client).toMatchObject({ isCluster: false, status: 'idle', isWritable: false, endsForGood: false });
      expect(client).toMatchObject({ address: `127.0.0.1:${port}`, peer: null });
      await client.connect();
      await untilReady(client);
      expect(record).toEqual(['connecting', 'connected', 'ready']);
      expect(client).toMatchObject({ status: 'ready', isWritable: true, peer: { host: '127.0.0.1', port } });
    });

    it('of a client of the application leads to its server', async () => {
      const client = await new SubjectClients(subject).given(redisUrl());
      expect(client).toMatchObject({ isCluster: false, status: 'ready', isWritable: true, endsForGood: false });
      expect(client.peer).toEqual({ host: '127.0.0.1', port: portOf(redisUrl()) });
      expect(client.address).toBe(`127.0.0.1:${portOf(redisUrl())}`);
    });

    it('has an address without the password', async () => {
      const admin = openAdmin();
      const user = freshKey('user');
      await admin.call('ACL', 'SETUSER', user, 'on', '>geheim', '~*', '&*', '+@all');
      const url = `redis://${user}:geheim@127.0.0.1:${portOf(redisUrl())}`;
      const clients = new SubjectClients(subject);
      const own = await clients.connected(url);
      const given = await clients.given(url);
      for (const { address } of [own, given]) expect(address).toBe(`127.0.0.1:${portOf(redisUrl())}`);
      await admin.call('ACL', 'DELUSER', user);
    });

    it('uses the database of its URL', async () => {
      const client = await new SubjectClients(subject).connected(`${redisUrl()}/3`);
      const [admin, key] = [openAdmin({ port: portOf(redisUrl()), db: 3 }), freshKey()];
      await client.evaluate("return redis.call('SET', KEYS[1], ARGV[1], 'PX', 10000)", [1, key, 'here']);
      expect(await admin.get(key)).toBe('here');
    });

    it('is given up when the server does not have its database', async () => {
      const client = new SubjectClients(subject).open(`${redisUrl()}/99`);
      const errors: Error[] = [];
      client.on('error', (error) => errors.push(error));
      const record = recordOf(client);
      client.connect().catch(() => undefined);
      await eventually(() => record.includes('closed'));
      expect(record).not.toContain('ready');
      expect(errors[0]).toMatchObject({ name: 'ReplyError' });
      expect(errors[0]!.message).toContain('ERR DB index is out of range');
    });

    it.each(['our own', 'the application'])('of %s has duplicates, which connect by themselves', async (whose) => {
      const client = await new SubjectClients(subject).one(whose, redisUrl());
      const copy = client.duplicate();
      expect(copy).not.toBe(client);
      await untilReady(copy);
      expect(copy).toMatchObject({ isCluster: false, address: client.address, endsForGood: false });
      const ids = [client, copy].map((one) => one.evaluate("return redis.call('INCR', KEYS[1])", [1, freshKey()]));
      expect(await Promise.all(ids)).toEqual([1, 1]);
      await copy.close();
      expect(copy.status).toBe('ended');
      expect(client).toMatchObject({ status: 'ready', isWritable: true });
    });

    it('is closed when its socket has ended', async () => {
      const { url, admin } = await ownRedis();
      const client = await new SubjectClients(subject).connected(url);
      const record = recordOf(client);
      expect(await connectionsBesides(admin)).toBe(1);
      await client.close();
      expect(client).toMatchObject({ status: 'ended', isWritable: false });
      expect(record.at(-1)).toBe('ended');
      await eventually(async () => (await connectionsBesides(admin)) === 0);
    });

    it('that never connected is also closed, and closed again', async () => {
      const client = new SubjectClients(subject).open(redisUrl());
      await client.close();
      expect(client.status).toBe('ended');
      await client.close();
    });

    it('ends at once on request', async () => {
      const client = await new SubjectClients(subject).connected(redisUrl());
      client.disconnect();
      await eventually(() => client.status === 'ended' && !client.isWritable && client.peer === null);
    });

    it('calls listeners until they are removed', async () => {
      const client = new SubjectClients(subject).open(redisUrl());
      const heard: string[] = [];
      const removeOn = client.on('ready', () => heard.push('on'));
      client.once('ready', () => heard.push('once'));
      client.once('ready', () => heard.push('removed'))();
      client.on('ready', () => heard.push('removed'))();
      await client.connect();
      await untilReady(client);
      expect(heard).toEqual(['on', 'once']);
      client.reconnect();
      await eventually(() => heard.length === 3);
      removeOn();
      await untilReady(client);
      client.reconnect();
      const again = new Promise<void>((resolve) => client.once('ready', resolve));
      await again;
      expect(heard).toEqual(['on', 'once', 'on']);
    });

    it('to one server has no sentinels to watch', async () => {
      const client = await new SubjectClients(subject).connected(redisUrl());
      expect(client.watchMaster(() => undefined)).toBeNull();
    });

    it('of the module refuses a URL that it cannot read, without the password', () => {
      const open = () => new SubjectClients(subject).open('redis://user:ge%heim@127.0.0.1:port');
      expect(open).toThrow('`connection`');
      expect(open).not.toThrow('heim');
    });
  });

  it('the library is installed, and recognises its clients', () => {
    const { library } = subject;
    const app = subject.give(redisUrl());
    try {
      expect(library.isInstalled()).toBe(true);
      expect(library.isClient(app.client)).toBe(true);
      expect(() => checkClient(library, app.client, '`connection`')).not.toThrow();
      expect(library.isCluster(app.client)).toBe(false);
      expect(library.placeOf(app.client)).toMatchObject({ host: '127.0.0.1', port: portOf(redisUrl()) });
      for (const other of [null, 7, redisUrl(), {}, { host: 'a' }, Promise.resolve()]) {
        expect(library.isClient(other)).toBe(false);
      }
      const parts = { clock: systemClock, random: systemRandomness, reporter: new FakeReporter() };
      expect(library.copyOf(app.client, parts).isCluster).toBe(false);
    } finally {
      app.end();
    }
  });
}
