import 'reflect-metadata';
import { BullModule, getQueueToken, Processor, WorkerHost } from '@nestjs/bullmq';
import { Injectable, type Type } from '@nestjs/common';
import { type Job, type JobsOptions, type Queue, UnrecoverableError } from 'bullmq';
import { currentLock, Locked, type RedisLockModuleOptions } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { freshKey, type LockApp, startApp } from '../../support/apps/lock-app.js';
import { SideBySide } from './places.js';
import { redisUrl } from '../../support/topologies/topology.js';

export const QUEUE = 'work';

export interface Data {
  readonly id: string;
  /** How the work ends. */
  readonly end?: 'fail' | 'never again';
}

export type WorkJob = Job<Data, string>;

/** What the workers of one app did. */
@Injectable()
export class Work extends SideBySide {
  until: Promise<void> = Promise.resolve();
  readonly seen: string[] = [];

  perform({ data: { id, end } }: WorkJob): Promise<string> {
    return this.run(async () => {
      await this.until;
      if (end === 'fail') throw new TypeError(`no ${id}`);
      if (end) throw new UnrecoverableError(`no ${id} ${end}`);
      return `${id} under ${currentLock().key}`;
    });
  }
}

/** Waits for the key of its job. */
@Processor(QUEUE, { concurrency: 10, drainDelay: 1 })
export class Waiting extends WorkerHost {
  constructor(readonly work: Work) {
    super();
  }

  @Locked('job:<0.data.id>')
  override async process(job: WorkJob): Promise<string> {
    return this.work.perform(job);
  }
}

export interface WorkerApp extends LockApp {
  readonly work: Work;
  readonly queue: Queue<Data, string>;
}

/** An app whose workers serve the queue of one test. */
export async function start(
  processor: Type<WorkerHost>,
  prefix = freshKey('bull'),
  options: RedisLockModuleOptions = {},
): Promise<WorkerApp> {
  const bull = BullModule.forRoot({ prefix, connection: { url: redisUrl() } });
  const app = await startApp(
    { ...options, keyPrefix: `${prefix}:locks:` },
    { imports: [bull, BullModule.registerQueue({ name: QUEUE })], providers: [Work, processor] },
  );
  return { ...app, work: app.app.get(Work), queue: app.app.get(getQueueToken(QUEUE)) };
}

export async function startTwo(processor: Type<WorkerHost>): Promise<readonly [WorkerApp, WorkerApp]> {
  const prefix = freshKey('bull');
  return [await start(processor, prefix), await start(processor, prefix)];
}

/** Adds a job; `ended` is its state in the end, and what it gave or why it failed, asked of any app. */
export async function add(app: WorkerApp, data: Data, options?: JobsOptions) {
  const { id } = await app.queue.add('any', data, options);
  const ended = async ({ queue } = app) => {
    const job = await eventually(async () => {
      const found = await queue.getJob(id!);
      return found?.finishedOn === undefined ? null : found;
    });
    const state = await job.getState();
    return { state, value: job.returnvalue, reason: job.failedReason, attempts: job.attemptsMade };
  };
  return { ended };
}
