import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Leader, leadershipOf } from '../../../../lib/index.js';
import { FakeLockModule, FakeLockService } from '../../../../lib/testing/index.js';
import { eventually } from '../../../support/waiting/eventually.js';

@Leader('reports')
@Injectable()
class Reports {}

describe('a leader with fake locks', () => {
  it('is elected, may be demoted, and is elected again', async () => {
    const locks = new FakeLockService();
    const told: string[] = [];
    const leadership = locks.lead('reports', {
      onElected: () => told.push('elected'),
      onDemoted: (_term, reason) => told.push(reason),
    });
    await leadership.waitUntilLeader();
    locks.refuse('reports').lose('reports', 'revoked');
    expect(leadership.isLeader()).toBe(false);
    locks.grant('reports');
    await leadership.waitUntilLeader();
    await leadership.stop();
    expect(told).toEqual(['elected', 'revoked', 'elected', 'stopped']);
    expect(locks.keys).toEqual(['reports', 'reports']);
  });

  it('campaigns while Redis is away, and is elected when it is back', async () => {
    const locks = new FakeLockService().fail('reports');
    const leadership = locks.lead('reports');
    const elected = leadership.waitUntilLeader();
    await eventually(() => locks.activity.waiting === 1);
    expect(leadership.isLeader()).toBe(false);
    locks.grant();
    await elected;
    await leadership.stop();
  });

  it('leads in each app that uses the same fake, one after the other', async () => {
    const locks = new FakeLockService();
    const startAndClose = async (): Promise<void> => {
      const imports = [FakeLockModule.forRoot(locks)];
      const app = await (await Test.createTestingModule({ imports, providers: [Reports] }).compile()).init();
      const leadership = leadershipOf(app.get(Reports));
      await leadership.waitUntilLeader();
      await app.close();
      expect(leadership.isLeader()).toBe(false);
    };
    await startAndClose();
    await startAndClose();
    expect(locks.activity).toEqual({ held: 0, waiting: 0 });
  });
});
