import { startSecured } from '../../../scripts/topologies.mjs';
import { setUp } from './topology-setup.mjs';

export default () =>
  setUp('secured', async () => {
    const secured = await startSecured();
    return { connection: secured.connection, admins: [secured.admin], stop: () => secured.stop() };
  });
