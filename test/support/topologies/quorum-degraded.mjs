import { startQuorum } from '../../../scripts/topologies.mjs';
import { setUp } from './topology-setup.mjs';

/** Two of three nodes are up, so that every grant needs both. */
export default () =>
  setUp('quorum-degraded', async () => {
    const quorum = await startQuorum(3);
    await quorum.servers[2].kill();
    return { connection: quorum.connection, admins: quorum.connection.slice(0, 2), stop: () => quorum.stop() };
  });
