// Measures what locks cost, compared with the shortest code by hand and other packages: `npm run bench`, or `npm run bench -- 64-callers`.
import { basename, join } from 'node:path';
import process from 'node:process';
import { WORKLOADS } from '../bench/workloads.mjs';
import { root, withFolder } from './checks.mjs';
import { UsageError, ensureBuilt, ensurePackages, flag, runCommand, whole } from './command.mjs';
import { endOnSignals } from './follow.mjs';

const NAMES = WORKLOADS.map(({ name }) => name);
const DOCUMENT = join(root, 'docs', 'performance-laboratory.md');

const SHORT_MINUTES = 15;
const SHORT = { rounds: 5, ms: 200 };
const FULL = { rounds: 15, ms: 500 };
const TINY = { rounds: 1, ms: 20 };

const usage = `Usage: npm run bench -- [options] [workloads]
  --full        all packages in place of the best one, and more rounds; writes docs/performance-laboratory.md when all workloads ran
  --rounds N    how often each candidate is measured (5; with --full 15)
  --tiny        everything as short as possible, to see that it works
  --ms N        how long each time, in milliseconds (200; with --full 500)
Workloads: ${NAMES.join(', ')}`;

const options = { full: flag, tiny: flag, rounds: whole(1, 1_000), ms: whole(10, 60_000) };

await runCommand({ usage, options, takesWords: true }, async ({ full, tiny, ...values }, words) => {
  const unknown = words.find((word) => !NAMES.includes(word));
  if (unknown !== undefined) throw new UsageError(`${unknown}: expected ${NAMES.join(', ')}.`);
  const byDefault = tiny ? TINY : full ? FULL : SHORT;
  const { rounds = byDefault.rounds, ms = byDefault.ms } = values;
  ensureBuilt();
  ensurePackages(join(root, 'bench'));
  endOnSignals();
  const { measureAll } = await import('../bench/measure-all.mjs');
  const { writeDocument } = await import('../bench/document.mjs');
  const isAll = words.length === 0;
  const chosen = WORKLOADS.filter(({ name, isAsked }) => (isAll ? !isAsked : words.includes(name)));
  // A run must end, also on a busy machine.
  const stop = () => {
    console.error(`Stopped after ${SHORT_MINUTES} minutes: the workloads that follow were not measured.`);
    process.exit(1);
  };
  if (isAll && !full) setTimeout(stop, SHORT_MINUTES * 60_000).unref();
  const results = await measureAll(chosen, { isFull: full, isTiny: tiny, rounds, ms });
  const write = (file) => writeDocument(file, results, { rounds, ms });
  // The writer must also work before a full run needs it: its figures are meaningless, and are discarded.
  if (isAll && tiny) await withFolder((folder) => write(join(folder, basename(DOCUMENT))));
  else if (isAll && full) write(DOCUMENT);
  console.log(`\n${Math.round(performance.now() / 1_000)} s in all.`);
  process.exit();
});
