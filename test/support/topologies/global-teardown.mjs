import process from 'node:process';

/** Stops what global-setup.mjs started. In watch mode, the next run starts its own. */
export default async function globalTeardown() {
  for (const { variable, stop } of globalThis.startedForTests.splice(0)) {
    delete process.env[variable];
    await stop();
  }
}
