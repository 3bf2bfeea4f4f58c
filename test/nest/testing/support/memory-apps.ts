import { createServer, type Server } from 'node:net';
import { Injectable, type Type } from '@nestjs/common';
import { InjectLockService, Locked, RedisLockService } from '../../../../lib/index.js';
import { RedisLockTestingModule } from '../../../../lib/testing/index.js';
import { closeLater, startModule } from '../../../support/apps/lock-app.js';

/** Locks by a named module. */
@Injectable()
export class Audits {
  constructor(@InjectLockService('audit') readonly locks: RedisLockService) {}

  @Locked('order:<0>', { connection: 'audit', ifBusy: 'throw' })
  async write(id: string): Promise<string> {
    return id;
  }
}

/** A port where a Redis could be, which counts its connections. */
export interface Trap {
  readonly url: string;
  readonly connections: () => number;
}

/** Listens at the address in the options of the real module, and never answers. */
export async function startTrap(): Promise<Trap> {
  let count = 0;
  const server: Server = createServer((socket) => {
    count += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  closeLater({ close: () => new Promise<void>((resolve) => server.close(() => resolve())) });
  return { url: `redis://127.0.0.1:${port}`, connections: () => count };
}

type MemoryOptions = Parameters<typeof RedisLockTestingModule.forRoot>[0];

/** Starts an app with the orders of a test file, whose locks are in memory; it waits for no holder when it closes. */
export async function startOrders<T>(type: Type<T>, options: MemoryOptions = {}) {
  const imports = [RedisLockTestingModule.forRoot({ drainMs: 0, ...options })];
  const app = await startModule({ imports, providers: [type] });
  return { app, orders: app.get(type), locks: app.get(RedisLockService) };
}

const kept: unknown[] = [];

/** Holds a lock to the end of the test; a handle that nobody refers to is released by the garbage collector. */
export function keep<T>(lock: T): T {
  kept.push(lock);
  return lock;
}
