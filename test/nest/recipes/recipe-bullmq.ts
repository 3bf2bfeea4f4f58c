import { Processor, WorkerHost } from '@nestjs/bullmq';
import { type OnModuleDestroy } from '@nestjs/common';
import { type Job } from 'bullmq';
import { currentLock, Locked } from '../../../lib/index.js';

/** Jobs of one customer run one after the other, on all workers; jobs of others run at the same time. */
@Processor('invoices', { concurrency: 10 })
export class Invoices extends WorkerHost implements OnModuleDestroy {
  @Locked('customer:<0.data.customer>', { waitMs: 60_000 })
  override async process(job: Job<{ customer: string }>): Promise<string> {
    currentLock().signal.throwIfAborted();
    return `invoice for ${job.data.customer}`;
  }

  /** Before the locks end: otherwise jobs would fail during a deployment. */
  async onModuleDestroy(): Promise<void> {
    await this.worker.close();
  }
}
