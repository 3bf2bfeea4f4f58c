import { Module } from '@nestjs/common';
import { TerminusModule } from '@nestjs/terminus';
import { LockHealthIndicator } from '../../lib/observability/terminus.js';
import { startCluster } from '../../scripts/topologies.mjs';
import { type LockApp, closeAll, startApp } from '../support/apps/lock-app.js';
import { eventuallyPasses } from '../support/waiting/eventually.js';

@Module({ imports: [TerminusModule.forRoot({ logger: false })], providers: [LockHealthIndicator] })
class HealthModule {}

afterEach(closeAll);

describe('LockHealthIndicator', () => {
  it('is down when it is connected to a single node of a cluster', async () => {
    const cluster = await startCluster({ replicas: 0, nodeTimeoutMs: 20_000 });
    try {
      const start = ({ url }: { url: string }) => startApp({ connection: url }, { imports: [HealthModule] });
      const apps = await Promise.all(cluster.masters.map(start));
      const messageOf = async ({ app }: LockApp) =>
        (await app.get(LockHealthIndicator, { strict: false }).isHealthy()).locks.message;
      const moved = 'Redis could not be asked: MOVED.';
      // On a busy machine, a node may answer too late.
      await eventuallyPasses(async () => {
        const messages = await Promise.all(apps.map(messageOf));
        expect(messages.filter((message) => message !== undefined)).toEqual([moved, moved]);
      });
    } finally {
      await cluster.stop();
    }
  }, 60_000);
});
