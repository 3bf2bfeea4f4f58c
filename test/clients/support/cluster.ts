import { type SingleClient } from '../../../lib/redis/client/redis-client.js';
import { closeAll, freshKey, openAdmin } from '../../support/apps/lock-app.js';
import { startClusterNode } from '../../support/redis/cluster-node.js';
import { eventually } from '../../support/waiting/eventually.js';
import { type Subject, SubjectClients, connectionsBesides, recordOf, untilReady, writesDuring } from './subject.js';
import { ownCluster } from '../../support/redis/own-topologies.js';

const HOST = '127.0.0.1';

/** What the clients of a cluster promise, on a cluster of one node. */
export function clusterConformance(subject: Subject): void {
  describe('a client of a cluster', () => {
    let node: Awaited<ReturnType<typeof startClusterNode>>;

    beforeEach(async () => {
      node = await startClusterNode();
    });

    afterEach(closeAll);

    it.each(['our own', 'the application'])('of %s has the nodes, and the node that serves a key', async (whose) => {
      const cluster = await new SubjectClients(subject).oneCluster(whose, node.port);
      const at = { host: HOST, port: node.port };
      expect(cluster).toMatchObject({
        isCluster: true,
        status: 'ready',
        isWritable: true,
        endsForGood: false,
      });
      expect(cluster.nodes('master')).toHaveLength(1);
      expect(cluster.nodes('all')).toHaveLength(1);
      expect(cluster.masterAddressOf('lock:a')).toEqual(at);
      expect(cluster.reachedBy(at)).toEqual(at);
      const master = await eventually(() => cluster.masterOf('lock:a'));
      expect(master).toBe(cluster.nodes('master')[0]);
      expect(master).toMatchObject({ isCluster: false, address: `${HOST}:${node.port}` });
      expect(cluster.watchMaster()).toBeNull();
    });

    it('sends commands to the node of their key', async () => {
      const cluster = await new SubjectClients(subject).connectedCluster(node.port);
      const text = "return {KEYS[1], ARGV[1], redis.call('SET', KEYS[1], ARGV[1])}";
      expect(await cluster.evaluate(text, [1, 'lock:{a}:x', 7])).toEqual(['lock:{a}:x', '7', 'OK']);
      expect(await node.admin.get('lock:{a}:x')).toBe('7');
      const master = await eventually(() => cluster.masterOf('lock:{a}:x'));
      await eventually(() => master.isWritable);
      master.asking();
      expect(await master.evaluate("return redis.call('GET', KEYS[1])", [1, 'lock:{a}:x'])).toBe('7');
      expect(await master.scan('0', 'lock:*', 100)).toEqual(['0', ['lock:{a}:x']]);
      expect(await master.info('server')).toContain('run_id:');
    });

    it('sends related commands in one write', async () => {
      const cluster = await new SubjectClients(subject).connectedCluster(node.port);
      const all: Promise<unknown>[] = [];
      const send = (): void => {
        for (let i = 0; i < 50; i += 1) all.push(cluster.evaluate('return ARGV[1]', [1, `lock:${i}`, i]));
      };
      await cluster.evaluate('return 1', [1, 'lock:a']);
      const writes = await writesDuring(async () => {
        cluster.inOneWrite(send);
        await Promise.all(all);
      });
      expect(writes).toBe(1);
      expect(await Promise.all(all)).toEqual(all.map((_, i) => String(i)));
    });

    it('attaches to each node, and detaches', async () => {
      const cluster = await new SubjectClients(subject).connectedCluster(node.port);
      const [attached, detached] = [new Set<SingleClient>(), new Set<SingleClient>()];
      const detach = cluster.attachToNodes((one) => {
        attached.add(one);
        return () => detached.add(one);
      });
      expect([...attached]).toEqual([...cluster.nodes('all')]);
      expect(detached.size).toBe(0);
      detach();
      expect(detached).toEqual(attached);
    });

    it('asks for its slots again, and reports when that is over', async () => {
      const cluster = await new SubjectClients(subject).connectedCluster(node.port);
      await new Promise<void>((resolve) => cluster.refreshSlots(resolve));
      await node.stop();
      await new Promise<void>((resolve) => cluster.refreshSlots(resolve));
    });

    it('continues with the connections that it has when no node reports its slots', async () => {
      const cluster = await new SubjectClients(subject).connectedCluster(node.port);
      await cluster.evaluate('return 1', [1, 'lock:a']);
      const record = recordOf(cluster);
      await node.admin.call('ACL', 'SETUSER', 'default', '-cluster|slots');
      await new Promise<void>((resolve) => cluster.refreshSlots(resolve));
      expect(cluster).toMatchObject({ status: 'ready', isWritable: true });
      expect(await cluster.evaluate("return redis.call('INCR', KEYS[1])", [1, 'lock:a'])).toBe(1);
      await node.admin.call('ACL', 'SETUSER', 'default', '+cluster|slots');
      await new Promise<void>((resolve) => cluster.refreshSlots(resolve));
      expect(record).toEqual([]);
    });

    it('leaves a node that hangs once another one serves its slots, and it has asked for them', async () => {
      const { masters, replicas } = await ownCluster({ replicas: 1 });
      const cluster = await new SubjectClients(subject).connectedCluster(masters[0]!.port);
      const isAt = (port: number) => (one: SingleClient) => one.address === `${HOST}:${port}`;
      const [hanging, heir] = [masters[1]!, replicas[1]!];
      const left = await eventually(() => cluster.nodes('master').find(isAt(hanging.port)));
      process.kill(hanging.pid, 'SIGSTOP');
      await openAdmin(heir.url).call('CLUSTER', 'FAILOVER', 'TAKEOVER');
      const isLeft = async (): Promise<boolean> => {
        await new Promise<void>((resolve) => cluster.refreshSlots(resolve));
        return !cluster.nodes('master').includes(left);
      };
      await eventually(isLeft, { timeoutMs: 20_000 });
      expect(cluster.nodes('master')).toHaveLength(3);
      expect(cluster.nodes('master').filter(isAt(heir.port))).toHaveLength(1);
    }, 60_000);

    it('opens a connection to a node, which ends when the node is gone', async () => {
      const cluster = await new SubjectClients(subject).connectedCluster(node.port);
      const one = cluster.openNode({ host: HOST, port: node.port })!;
      expect(one).toMatchObject({ isCluster: false, endsForGood: true });
      expect(cluster.nodes('all')).not.toContain(one);
      await untilReady(one);
      expect(await one.evaluate("return redis.call('INCR', KEYS[1])", [1, 'lock:a'])).toBe(1);
      await node.stop();
      await eventually(() => one.status === 'ended');
    });

    it('receives what is published at any node on a separate connection', async () => {
      const cluster = await new SubjectClients(subject).connectedCluster(node.port);
      const subscriber = await eventually(() => cluster.openSubscriber());
      await untilReady(subscriber);
      const [channel, messages] = [freshKey('channel'), [] as string[]];
      subscriber.on('message', (_channel, text) => messages.push(text));
      await subscriber.subscribe(channel);
      await node.admin.publish(channel, 'hello');
      await eventually(() => messages.length === 1);
      expect(messages).toEqual(['hello']);
      expect(subscriber.endsForGood).toBe(true);
      await subscriber.close();
    });

    it('closes all of its connections', async () => {
      const cluster = await new SubjectClients(subject).connectedCluster(node.port);
      await cluster.evaluate('return 1', [1, 'lock:a']);
      expect(await connectionsBesides(node.admin)).toBeGreaterThan(0);
      await cluster.close();
      expect(cluster).toMatchObject({ status: 'ended', isWritable: false });
      await eventually(async () => (await connectionsBesides(node.admin)) === 0);
    });

    it('comes back when its only node does not answer for a while', async () => {
      const cluster = await new SubjectClients(subject).connectedCluster(node.port);
      cluster.reconnect();
      await eventually(() => cluster.status !== 'ready');
      await untilReady(cluster);
      expect(await cluster.evaluate('return 1', [1, 'lock:a'])).toBe(1);
    });

    it('reaches nodes by the addresses of its `natMap`', async () => {
      const natMap = { '10.9.9.9:7000': { host: HOST, port: node.port } };
      const cluster = new SubjectClients(subject).openCluster(node.port, natMap);
      expect(cluster.reachedBy({ host: '10.9.9.9', port: 7000 })).toEqual({ host: HOST, port: node.port });
      expect(cluster.reachedBy({ host: '10.9.9.8', port: 7000 })).toEqual({ host: '10.9.9.8', port: 7000 });
    });
  });
}
