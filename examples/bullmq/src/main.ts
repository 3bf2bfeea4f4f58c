import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { BullModule, getQueueToken, Processor, WorkerHost } from '@nestjs/bullmq';
import { Module, type OnModuleDestroy } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { Job, Queue } from 'bullmq';
import { Locked, RedisLockModule } from 'nestjs-redis-lock';

const url = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379';
const prefix = process.env['LOCK_PREFIX'] ?? 'bullmq-example:';

/** Jobs of one customer run one after the other, on all workers; jobs of others run at the same time. */
@Processor('invoices', { concurrency: 10 })
class Invoices extends WorkerHost implements OnModuleDestroy {
  @Locked('customer:<0.data.customer>', { waitMs: 60_000 })
  override async process(job: Job<{ customer: string }>): Promise<void> {
    const from = Date.now();
    await sleep(100); // An invoice.
    console.log(JSON.stringify({ customer: job.data.customer, instance: process.pid, from, to: Date.now() }));
  }

  /** Runs before the locks end: otherwise jobs would fail during a deployment. */
  async onModuleDestroy(): Promise<void> {
    await this.worker.close();
  }
}

@Module({
  imports: [
    BullModule.forRoot({ prefix: `${prefix}bull`, connection: { url } }),
    BullModule.registerQueue({ name: 'invoices' }),
    RedisLockModule.forRoot({ connection: url, keyPrefix: prefix }),
  ],
  providers: [Invoices],
})
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['warn', 'error', 'fatal'] });
app.enableShutdownHooks();
const customers = ['ann', 'bob', 'ann', 'bob'];
await app
  .get<Queue>(getQueueToken('invoices'))
  .addBulk(customers.map((customer) => ({ name: 'one', data: { customer } })));
console.log('ready');
