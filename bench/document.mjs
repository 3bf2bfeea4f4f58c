// Writes docs/performance-laboratory.md and its pictures.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { basename, join } from 'node:path';
import process from 'node:process';
import { ensureRedisServer } from '../scripts/redis.mjs';
import {
  AGAIN,
  BASELINE,
  OURS,
  OUR_COMMANDS,
  TOKEN_IN_LIST,
  isOwn,
  onNodeRedis,
  versions,
} from './candidates/index.mjs';
import { goals } from './goals.mjs';
import { plot } from './plot.mjs';
import { briefTable } from './table.mjs';

const INTRODUCTION = `# Performance laboratory

\`npm run bench -- --full\` wrote this document. [Performance](performance.md) sums it up. \`npm run bench\` measures the best package of each
workload only, and \`npm run bench -- NAME\` one workload, with all columns.

- The baseline ("${BASELINE}") is the shortest code without this package: \`SET key token NX PX\` and a Lua compare-and-delete on one
  connection of ioredis. When the lock is busy, it polls every millisecond. It has no fencing token, no renewal, no queue and no events.
  ${OURS} runs with its defaults and does all of that.
- "${OUR_COMMANDS}" sends the commands of ${OURS} by the code of the baseline: the difference to ${OURS} is the work of the client.
- "${TOKEN_IN_LIST}" is not a lock, but the fastest hand-over in Redis: \`LPUSH\` to a client that waits in \`BLPOP\`.
- "${onNodeRedis(OURS)}" runs on a client of node-redis; its baseline is "${onNodeRedis(BASELINE)}".
- Each candidate runs in its own process. Its slices are between slices of the baseline, all on one server. "Of the baseline" is the median
  of the ratios to the two slices around it. "${AGAIN}" is the baseline in a second process: its difference from 1 is noise. Compare the
  ratios: rates depend on the machine.
- Before the first slice, each process makes up to 150,000 calls, or renews its leases for one period: in a real app, the code has long been
  JIT-compiled. Before each slice, it runs for as long as the slice, except on a hot key.
- Other packages run at their defaults and, with ", 1 ms" or ", 20 ms", with that delay between two tries and without a limit of tries. A
  table has the three fastest packages whose calls did not give up, each with its better delay. On a hot key, a high rate often means that one caller takes the
  lock again and again while the others sleep: compare the longest wait as well.
- Commands are those of one acquire and release that a client sends; MONITOR counts them. A lease is lost if the package reports it, or if
  its key expired in Redis.`;

/** Before anything is measured. */
const [, , LOAD] = loadavg();

/** @param {string} file where to write; the pictures have its name, and what they show. */
export function writeDocument(file, results, { rounds, ms }) {
  const pictures = picturesOf(results).map(({ title, suffix, groups, scale }) => {
    const path = file.replace(/\.md$/, `-${suffix}.svg`);
    writeFileSync(path, plot(groups, scale));
    return `![${title}](${basename(path)})`;
  });
  writeFileSync(file.replace(/\.md$/, '-summary.svg'), plot(summaryOf(results), { from: 0.1, to: 100 }));
  const text = [
    INTRODUCTION,
    `${machine()} ${rounds} rounds with slices of ${ms} ms.`,
    '## Where others have a higher rate',
    slower(results),
    '## Goals',
    goals(results),
    '## All figures',
    ...pictures,
    ...results.map(
      ({ rows, ...workload }) => `### ${workload.title}\n\n\`${workload.name}\`\n\n${briefTable(workload, rows)}`,
    ),
  ];
  writeFileSync(file, `${text.join('\n\n')}\n`);
  spawnSync(join('node_modules', '.bin', 'prettier'), ['--write', file], { stdio: 'ignore' });
}

const compared = (results) => results.filter(({ measure }) => measure === 'compare');

function picturesOf(results) {
  const measured = (rows) => rows.filter((row) => row.ratios);
  const rates = compared(results).map(({ title, rows }) => ({
    title,
    bars: measured(rows).map(({ name, ratios }) => ({ name, ...ratios.rate })),
  }));
  const waits = compared(results)
    .filter(({ loop }) => loop.hot)
    .map(({ title, rows }) => ({
      title,
      bars: measured(rows).map(({ name, patience }) => ({ name, median: patience })),
    }));
  return [
    { title: 'Rates, relative to the baseline', suffix: 'rates', groups: rates, scale: { from: 0.01, to: 1_000 } },
    { title: 'The longest wait, in medians', suffix: 'waits', groups: waits, scale: { from: 1, to: 100_000 } },
  ];
}

/** For docs/performance.md: the baseline, ours and the fastest other package. */
function summaryOf(results) {
  return compared(results).flatMap(({ title, rows }) => {
    const bars = rows
      .filter((row) => row.ratios && !row.failures)
      .map(({ name, ratios }) => ({ name, ...ratios.rate }));
    const others = bars.filter(({ name }) => !isOwn(name)).sort((one, other) => other.median - one.median);
    const ours = bars.find(({ name }) => name === OURS);
    return ours ? [{ title, bars: [{ name: BASELINE, median: 1 }, ours, ...others.slice(0, 1)] }] : [];
  });
}

/** What others do faster in these results; without failures, since a call that gives up ends early. */
function slower(results) {
  const lines = compared(results).flatMap(({ title, rows }) => {
    const ours = rows.find(({ name }) => name === OURS);
    // Of the history, ours is the reference.
    if (!ours.ratios) return [];
    const faster = rows.filter(
      ({ name, ratios, failures }) => !isOwn(name) && !failures && ratios?.rate.median > ours.ratios.rate.median,
    );
    const names = faster.map(({ name, ratios }) => `${name} (${ratios.rate.median.toFixed(2)})`);
    if (ours.ratios.rate.median < 1) names.unshift(`${BASELINE} (1)`);
    if (names.length === 0) return [];
    return [
      `- ${title}: ours has ${ours.ratios.rate.median.toFixed(2)} of the baseline; more have ${names.join(', ')}.`,
    ];
  });
  return lines.length > 0 ? lines.join('\n') : 'In none of the workloads below.';
}

function machine() {
  const redis = spawnSync(ensureRedisServer(), ['--version'], { encoding: 'utf8' });
  const [, version] = /v=([\d.]+)/.exec(redis.stdout);
  const packages = Object.entries(versions()).map(([name, one]) => `${name} ${one}`);
  const [{ model }] = cpus();
  return (
    `Measured on ${cpus().length} cores (${model.trim()}), with a load of ${LOAD.toFixed(1)} in the quarter of an hour before, ` +
    `with Node ${process.versions.node} and Redis ${version}; ${packages.join(', ')}.`
  );
}
