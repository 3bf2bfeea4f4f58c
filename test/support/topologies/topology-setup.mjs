import process from 'node:process';

const started = [];

/**
 * Starts a topology for the workers of its Jest project, which find its addresses in an environment variable
 * (topology.ts). `admins` are the addresses of all stores with a copy of their own, for those who look at the data.
 */
export async function setUp(name, start) {
  const topology = await start();
  const { connection, admins = [connection] } = topology;
  const variable = `LOCK_TOPOLOGY_${name.toUpperCase().replaceAll('-', '_')}`;
  process.env[variable] = JSON.stringify({ connection, admins });
  started.push({ variable, topology });
}

/** Stops everything that was started here. */
export async function tearDown() {
  for (const { variable, topology } of started.splice(0)) {
    // In watch mode the next run starts its own.
    delete process.env[variable];
    await topology.stop();
  }
}
