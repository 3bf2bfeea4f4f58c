import { Module } from '@nestjs/common';
import { TerminusModule } from '@nestjs/terminus';
import { LockHealthIndicator } from '../../lib/observability/terminus.js';
import { startCluster } from '../../scripts/topologies.mjs';
import { closeAll, startApp } from '../support/apps/lock-app.js';

@Module({ imports: [TerminusModule.forRoot({ logger: false })], providers: [LockHealthIndicator] })
class HealthModule {}

afterEach(closeAll);

describe('LockHealthIndicator', () => {
  it('is down when it is connected to a single node of a cluster', async () => {
    const cluster = await startCluster({ replicas: 0, nodeTimeoutMs: 20_000 });
    try {
      const messages = await Promise.all(
        cluster.masters.map(async ({ url }) => {
          const { app } = await startApp({ connection: url }, { imports: [HealthModule] });
          return (await app.get(LockHealthIndicator, { strict: false }).isHealthy()).locks.message;
        }),
      );
      const moved = 'Redis could not be asked: MOVED.';
      expect(messages.filter((message) => message !== undefined)).toEqual([moved, moved]);
    } finally {
      await cluster.stop();
    }
  }, 60_000);
});
