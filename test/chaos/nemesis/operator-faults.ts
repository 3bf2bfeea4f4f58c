import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type FaultKind } from './fault-kind.js';
import { KEYS } from './server-faults.js';

const SCRIPT = join(import.meta.dirname, '..', 'worker', 'force-release.mjs');
const WITHIN_MS = 10_000;

/** What people do who are asked to help: they take a lock from its holder, by a connection that no fault concerns. */
export const operatorFaults = (connection: () => unknown): FaultKind[] => [
  {
    name: 'force release',
    plan(random) {
      const key = random.pick(KEYS);
      return {
        target: 'operator',
        forgets: [key],
        lastsMs: 1_500,
        async inflict() {
          const args = [SCRIPT, JSON.stringify(connection()), key];
          // While the servers are away it fails, as it would for anybody.
          await promisify(execFile)(process.execPath, args, { timeout: WITHIN_MS }).catch(() => undefined);
        },
      };
    },
  },
];
