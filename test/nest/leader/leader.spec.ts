import 'reflect-metadata';
import { Injectable, type ModuleMetadata } from '@nestjs/common';
import { Cron, Interval, ScheduleModule, SchedulerRegistry, Timeout } from '@nestjs/schedule';
import {
  assertLocked,
  currentLock,
  type DemotionReason,
  Leader,
  type LeaderHooks,
  leadershipOf,
  type LeaderTerm,
  Locked,
  LockLostError,
} from '../../../lib/index.js';
import { closeAll, freshKey, type LockApp, startApp } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';

const KEY = freshKey('reports');

/** What the instances of a test did, in order. */
const did: string[] = [];

@Leader(KEY, { leaseMs: 120_000 })
@Injectable()
class Reports implements LeaderHooks {
  name = '';
  readonly terms: LeaderTerm[] = [];
  work: () => unknown = () => 'done';

  onElected(term: LeaderTerm): void {
    assertLocked(KEY);
    this.terms.push(term);
    did.push(`${this.name} elected`);
  }

  onDemoted(_term: LeaderTerm, reason: DemotionReason): void {
    did.push(`${this.name} demoted: ${reason}`);
  }

  @Cron('0 0 0 1 1 *')
  async yearly(how = 'by hand'): Promise<unknown> {
    did.push(`${this.name} yearly ${how} ${currentLock().fencingToken === this.terms.at(-1)?.fencingToken}`);
    return this.work();
  }

  @Timeout(1)
  once(): void {
    did.push(`${this.name} once`);
  }

  @Interval(20)
  @Locked('tick', { ifBusy: 'skip' })
  async often(): Promise<void> {
    did.push(`${this.name} often`);
  }

  status(): string {
    return leadershipOf(this).isLeader() ? 'leads' : 'waits';
  }
}

async function startReports(name: string, metadata: ModuleMetadata = {}): Promise<LockApp & { reports: Reports }> {
  const providers = [Reports, ...(metadata.providers ?? [])];
  const started = await startApp({}, { ...metadata, imports: [ScheduleModule.forRoot()], providers });
  const reports = started.app.get(Reports);
  reports.name = name;
  return Object.assign(started, { reports });
}

/** Starts an instance that leads, and one that waits for its turn. */
async function startTwo() {
  const first = await startReports('a');
  await leadershipOf(first.reports).waitUntilLeader();
  const second = await startReports('b');
  await untilWaiting(first, KEY);
  did.length = 0;
  return [first, second] as const;
}

describe('a class with @Leader', () => {
  afterEach(async () => {
    await closeAll();
    did.length = 0;
  });

  it('leads on one instance, with a token that the operator sees, and is named there', async () => {
    const [{ reports, locks }, other] = await startTwo();
    expect([reports.status(), other.reports.status()]).toEqual(['leads', 'waits']);
    const { holders, fencingToken } = await locks.inspect(KEY);
    expect(fencingToken).toBe(reports.terms[0]!.fencingToken);
    expect(holders.map(({ where }) => where)).toEqual(['Reports']);
  });

  it('runs its scheduled methods there only, under the lock, and says where it skips them', async () => {
    const [first, second] = await startTwo();
    const skipped: string[] = [];
    second.locks.events.on('skipped', ({ where, template, reason }) => skipped.push(`${where} ${template} ${reason}`));
    expect([await first.reports.yearly(), await second.reports.yearly()]).toEqual(['done', undefined]);
    expect(did.filter((line) => line.includes('yearly'))).toEqual(['a yearly by hand true']);
    expect(skipped).toContain(`Reports.yearly ${KEY} not-leader`);
    await eventually(() => did.filter((line) => line === 'a often').length >= 3);
    expect(skipped).toContain(`Reports.often ${KEY} not-leader`);
    expect(did).not.toContain('b often');
  });

  it('runs a fire of the scheduler with its arguments', async () => {
    const [first, second] = await startTwo();
    for (const { app } of [second, first]) {
      for (const [, job] of app.get(SchedulerRegistry).getCronJobs()) await job.fireOnTick();
    }
    expect(did.filter((line) => line.includes('yearly'))).toHaveLength(1);
  });

  it('hands the lead on when its app shuts down, without waiting for its lease', async () => {
    const [first, second] = await startTwo();
    const elected = leadershipOf(second.reports).waitUntilLeader();
    // The lease would end long after the test.
    await first.close();
    const term = await elected;
    expect(term.fencingToken).toBeGreaterThan(first.reports.terms[0]!.fencingToken);
    expect(did.filter((line) => !line.endsWith('often'))).toEqual(['a demoted: shutdown', 'b elected']);
    expect(await second.reports.yearly()).toBe('done');
  });

  it('resigns when it is asked to, and lets the other instance go first', async () => {
    const [first, second] = await startTwo();
    await leadershipOf(first.reports).resign();
    await leadershipOf(second.reports).waitUntilLeader();
    expect(did.filter((line) => !line.endsWith('often'))).toEqual(['a demoted: resigned', 'b elected']);
    expect(await first.reports.yearly()).toBeUndefined();
  });

  it('tells a running method of a loss, and rejects its call', async () => {
    const [first] = await startTwo();
    const told = gate();
    first.reports.work = async () => {
      currentLock().signal.addEventListener('abort', told.open);
      await told.opened;
      return 'half';
    };
    const running = rejection<LockLostError>(first.reports.yearly());
    await first.locks.forceRelease(KEY);
    const error = await running;
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ reason: 'revoked', result: 'half' });
    await eventually(() => did.includes('b elected'));
    expect(did).toContain('a demoted: revoked');
  });

  it('passes an error of a running method untouched', async () => {
    const [first] = await startTwo();
    first.reports.work = () => Promise.reject(new Error('no paper'));
    await expect(first.reports.yearly()).rejects.toThrow('no paper');
  });

  it('does not lead before its app has started, nor after it', async () => {
    const seen: unknown[] = [];
    @Injectable()
    class Early {
      constructor(private readonly reports: Reports) {}

      async onModuleInit(): Promise<void> {
        seen.push(this.reports.status(), await this.reports.yearly());
      }
    }
    const app = await startReports('a', { providers: [Early] });
    const { reports } = app;
    await leadershipOf(reports).waitUntilLeader();
    await app.close();
    seen.push(reports.status(), await reports.yearly());
    expect(seen).toEqual(['waits', undefined, 'waits', undefined]);
  });
});
