import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { freshKey } from '../../support/apps/lock-app.js';

const SCRIPT = './test/support/processes/ioredis-module.mjs';

it('the recipe of @nestjs-modules/ioredis locks on the client of the app', async () => {
  const key = freshKey();
  const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT, key], { timeout: 110_000 });
  expect(stdout).toBe(`lock:${key}\n`);
}, 120_000);
