import { startQuorum } from '../../../scripts/topologies.mjs';
import { setUp } from './topology-setup.mjs';

export default () =>
  setUp('quorum', async () => {
    const quorum = await startQuorum(5);
    return { connection: quorum.connection, admins: quorum.connection, stop: () => quorum.stop() };
  });
