import { type AddressInfo, type Socket, connect, createServer } from 'node:net';
import { type Redis } from 'ioredis';
import { eventually } from '../waiting/eventually.js';
import { ownRedis } from './own-redis.js';
import { closeLater } from '../apps/lock-app.js';

/** A master whose only replica is far away. */
export interface FarReplicated {
  readonly url: string;
  readonly admin: Redis;
  /** How long it takes from the master to its replica and back. */
  roundTripMs: number;
}

/** Starts both, without a delay at first. */
export async function startFarReplicated(): Promise<FarReplicated> {
  const master = await ownRedis();
  const line = await startLine(master.port);
  await ownRedis(['--replicaof', '127.0.0.1', String(line.port)]);
  const isOnline = async () => (await master.admin.info('replication')).includes('state=online');
  await eventually(isOnline, { timeoutMs: 20_000 });
  return Object.assign(line, { url: master.url, admin: master.admin });
}

/** Forwards raw bytes; each direction takes half of the round trip. */
async function startLine(targetPort: number) {
  const sockets = new Set<Socket>();
  const line = { port: 0, roundTripMs: 0 };
  const carry = (from: Socket, to: Socket): void => {
    sockets.add(from);
    from.on('data', (bytes) => setTimeout(() => to.writable && to.write(bytes), line.roundTripMs / 2).unref());
    from.on('close', () => to.destroy());
    from.on('error', () => to.destroy());
  };
  const server = createServer((replica) => {
    const master = connect(targetPort, '127.0.0.1');
    carry(replica, master);
    carry(master, replica);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
  closeLater({ close });
  line.port = (server.address() as AddressInfo).port;
  return line;
}
