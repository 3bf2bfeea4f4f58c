import 'reflect-metadata';
import { BullModule, getQueueToken, OnWorkerEvent, Processor, WorkerHost } from '@nestjs/bullmq';
import { Injectable, type OnModuleDestroy, type Type } from '@nestjs/common';
import { type Job, type Queue } from 'bullmq';
import { currentLock, Locked, type RedisLockModuleOptions } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { freshKey, type LockApp, startApp } from '../../support/apps/lock-app.js';
import { closePlaces, gateOfTest, SideBySide } from '../support/places.js';
import { redisUrl } from '../../support/topologies/topology.js';

const QUEUE = 'work';

interface Data {
  readonly id: string;
  readonly fails?: boolean;
}

type WorkJob = Job<Data, string>;

/** What the workers of one app did. */
@Injectable()
class Work extends SideBySide {
  until: Promise<void> = Promise.resolve();
  readonly seen: string[] = [];

  perform({ data: { id, fails } }: WorkJob): Promise<string> {
    return this.run(async () => {
      await this.until;
      if (fails) throw new TypeError(`no ${id}`);
      return `${id} under ${currentLock().key}`;
    });
  }
}

/** Waits for the key of its job. */
@Processor(QUEUE, { concurrency: 10, drainDelay: 1 })
class Waiting extends WorkerHost {
  constructor(readonly work: Work) {
    super();
  }

  @Locked('job:<0.data.id>')
  override async process(job: WorkJob): Promise<string> {
    return this.work.perform(job);
  }
}

interface WorkerApp extends LockApp {
  readonly work: Work;
  readonly queue: Queue<Data, string>;
}

/** An app whose workers serve the queue of one test. */
async function start(
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

/** Adds a job; `ended` is its state in the end, and its result or its error, read from any app. */
async function add(app: WorkerApp, data: Data) {
  const { id } = await app.queue.add('any', data);
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

@Processor(QUEUE)
class WithEvents extends Waiting {
  @OnWorkerEvent('completed')
  @Locked('completed:<0.data.id>')
  async onCompleted(job: WorkJob): Promise<void> {
    this.work.seen.push(`completed ${job.data.id} under ${currentLock().key}`);
  }

  @Locked('failed:<0.data.id>')
  @OnWorkerEvent('failed')
  async onFailed(job: WorkJob, error: Error): Promise<void> {
    this.work.seen.push(`failed ${job.data.id} with ${error.message} under ${currentLock().key}`);
  }
}

afterEach(closePlaces);

describe('a locked WorkerHost.process', () => {
  it('runs under the key of its job, returns the value of the job, and runs its locked worker events', async () => {
    const app = await start(WithEvents);
    const [done, failed] = [await add(app, { id: '7' }), await add(app, { id: '8', fails: true })];
    expect(await done.ended()).toMatchObject({ state: 'completed', value: '7 under job:7' });
    expect(await failed.ended()).toMatchObject({ state: 'failed', reason: 'no 8' });
    await eventually(() => app.work.seen.length === 2);
    expect(app.work.seen.toSorted()).toEqual(['completed 7 under completed:7', 'failed 8 with no 8 under failed:8']);
  });
});

/**
 * Takes no more jobs and ends the running ones before the locks close: the hooks of global modules, such as that of
 * the locks, come last. The module of BullMQ itself closes its workers much later.
 */
@Processor(QUEUE, { concurrency: 10, drainDelay: 1 })
class ClosingFirst extends Waiting implements OnModuleDestroy {
  isClosing = false;

  async onModuleDestroy(): Promise<void> {
    const closed = this.worker.close();
    this.isClosing = true;
    await closed;
  }
}

describe('an app that shuts down while a worker holds a lock', () => {
  it('leaves new jobs to other apps when its worker closes in onModuleDestroy', async () => {
    const prefix = freshKey('bull');
    const leaving = await start(ClosingFirst, prefix, { drainMs: 20_000 });
    const until = gateOfTest();
    leaving.work.until = until.opened;
    const held = await add(leaving, { id: '7' });
    await eventually(() => leaving.work.running === 1);
    const closed = leaving.close();
    await eventually(() => leaving.app.get(ClosingFirst).isClosing);
    const late = await add(leaving, { id: '8' });
    const staying = await start(Waiting, prefix);
    expect(await late.ended(staying)).toMatchObject({ state: 'completed', value: '8 under job:8' });
    until.open();
    await closed;
    expect(await held.ended(staying)).toMatchObject({ state: 'completed', value: '7 under job:7', attempts: 1 });
    expect([leaving.work.total, staying.work.total]).toEqual([1, 1]);
  });
});
