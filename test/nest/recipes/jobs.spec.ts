import { BullModule, getQueueToken } from '@nestjs/bullmq';
import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { type Queue } from 'bullmq';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { eventually } from '../../support/waiting/eventually.js';
import { Invoices } from './recipe-bullmq.js';
import { Reports } from './recipe-cron.js';
import { Feed } from './recipe-leader.js';
import { Lottery } from './recipe-lottery.js';

const scheduled = { imports: [ScheduleModule.forRoot()] };

afterEach(closeAll);

describe('the recipe of a cron job', () => {
  it('runs a fire on one of two instances', async () => {
    const keyPrefix = `${freshKey('recipe')}:`;
    const start = () => startApp({ keyPrefix }, { ...scheduled, providers: [Reports] });
    const apps = [await start(), await start()];
    const skipped: string[] = [];
    for (const { locks } of apps) locks.events.on('skipped', ({ reason }) => skipped.push(reason));
    await Promise.all(apps.map(({ app }) => app.get(SchedulerRegistry).getCronJob('noon-report').fireOnTick()));
    await eventually(() => skipped.length === 1);
    expect(apps.flatMap(({ app }) => app.get(Reports).written)).toEqual(['noon']);
  });
});

describe('the recipe of a lottery', () => {
  it('draws once per fire, whoever draws', async () => {
    const keyPrefix = `${freshKey('recipe')}:`;
    const start = () => startApp({ keyPrefix }, { ...scheduled, providers: [Lottery] });
    const second = (): number => Math.floor(Date.now() / 1_000);
    const first = second();
    const apps = [await start(), await start()];
    const drawn = (): number[] => apps.flatMap(({ app }) => app.get(Lottery).drawn);
    await eventually(() => drawn().length >= 2, { timeoutMs: 25_000 });
    const tokens = drawn();
    expect(new Set(tokens).size).toBe(tokens.length);
    // There is one fire a second; two instances without the lock would draw twice as often.
    expect(tokens.length).toBeLessThanOrEqual(second() - first + 1);
  }, 40_000);
});

describe('the recipe of a queue', () => {
  it('makes the invoices of a customer one after the other', async () => {
    const prefix = freshKey('bull');
    const bull = BullModule.forRoot({ prefix, connection: { url: redisUrl() } });
    const imports = [bull, BullModule.registerQueue({ name: 'invoices' })];
    const { app, locks } = await startApp({ keyPrefix: `${prefix}:` }, { imports, providers: [Invoices] });
    const order: string[] = [];
    for (const event of ['acquired', 'released'] as const) locks.events.on(event, () => order.push(event));
    const queue = app.get<Queue>(getQueueToken('invoices'));
    const added = await queue.addBulk(Array.from({ length: 3 }, () => ({ name: 'invoice', data: { customer: 'c' } })));
    const values = added.map(({ id }) =>
      eventually(async () => ((await queue.getJob(id!))?.returnvalue as string | null) ?? false),
    );
    expect(await Promise.all(values)).toEqual(Array.from({ length: 3 }, () => 'invoice for c'));
    expect(order).toEqual(Array.from({ length: 3 }, () => ['acquired', 'released']).flat());
  });
});

describe('the recipe of a leader', () => {
  it('reads on one instance, and on the other when that one ends', async () => {
    const keyPrefix = `${freshKey('recipe')}:`;
    const start = () => startApp({ keyPrefix }, { providers: [Feed] });
    const [a, b] = [await start(), await start()];
    const [first, second] = [a.app.get(Feed), b.app.get(Feed)];
    await eventually(() => first.isReading() !== second.isReading());
    const [leads, waits] = first.isReading() ? [first, second] : [second, first];
    await eventually(() => leads.read.length > 1);
    expect(waits.read).toEqual([]);
    await (first.isReading() ? a : b).close();
    await eventually(() => waits.read.length > 0);
    expect(waits.read[0]).toBeGreaterThan(leads.read.at(-1)!);
  });
});
