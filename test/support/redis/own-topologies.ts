import { startCluster, startSecured, startSentinels } from '../../../scripts/topologies.mjs';
import { closeLater } from '../apps/lock-app.js';

/** Starts servers for this test alone. */
const forThisTest =
  <O extends unknown[], T extends { stop(): Promise<unknown> }>(start: (...options: O) => Promise<T>) =>
  async (...options: O): Promise<T> => {
    const started = await start(...options);
    closeLater({ close: () => started.stop() });
    return started;
  };

export const ownCluster = forThisTest(startCluster);
export const ownSentinels = forThisTest(startSentinels);
export const ownSecured = forThisTest(startSecured);
