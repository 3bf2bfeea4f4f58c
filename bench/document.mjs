// Writes docs/performance.md and its pictures.
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
import { table } from './table.mjs';

const INTRODUCTION = `# Performance

\`npm run bench -- --full\` wrote this document. \`npm run bench\` measures the same with the best package of each workload beside ours, and
\`npm run bench -- NAME\` one workload; \`npm run bench -- --help\` lists them.

The baseline ("${BASELINE}") is the shortest code that people write by hand: \`SET key token NX PX\` and a Lua compare-and-delete on one
connection of ioredis; when the lock is busy, it polls every millisecond. It has no fencing token, no renewal, no queue and no events.
Ours runs with its defaults and does all of that. "${OUR_COMMANDS}" sends the commands of ours, with all operands, in place of those of the
baseline: what is between it and ours is what the client does around them. "${TOKEN_IN_LIST}" is no lock, but the fastest way in which
Redis hands anything on: \`LPUSH\` to a client that waits in \`BLPOP\`.

\`${onNodeRedis(OURS)}\` is ours on a client of node-redis that the app passes to the module. Its baseline is \`${onNodeRedis(BASELINE)}\`: the same
code by hand on such a client.

Each candidate runs in a process of its own. Its slices lie between slices of the baseline, all on one server. "Of the baseline" is the
median of the ratios to the two slices beside it, with quartiles. "${AGAIN}" is the baseline in a second process: what it differs
from 1 is noise. Compare the ratios: rates depend on the machine and on what else runs on it. Processes that run only when no other one
wants to keep the cores awake. Before the first slice, each process makes up to 150,000 calls, or renews its leases for one period: a
process of an app has long compiled what it runs. Before each slice, it runs for as long as the slice, except on a hot key.

Other packages run at their defaults and, with ", 1 ms" or ", 20 ms", with that delay between two tries and no limit of tries. On a hot
key, a high rate often means that one caller takes the lock again and again while the others sleep: look at the longest wait, too. A
wait is not longer than a slice and its end, so the true ratio may be higher. Failures are calls that gave up.

Commands are what a client sends, \`redis.call\` is what its scripts call; MONITOR counts them on the server. Promises, timers and bytes
are those of one acquire and release, without what the benchmark itself makes. Promises of Bluebird, which redlock 4 uses, do not
count. A lease is lost if the package says so, or if its key expired in Redis, even if it was taken back.`;

/** Before anything is measured. */
const [, , LOAD] = loadavg();

/** @param {string} file where to write; the pictures have its name, and what they show. */
export function writeDocument(file, results, { rounds, ms }) {
  const pictures = picturesOf(results).map(({ title, suffix, groups, scale }) => {
    const path = file.replace(/\.md$/, `-${suffix}.svg`);
    writeFileSync(path, plot(groups, scale));
    return `![${title}](${basename(path)})`;
  });
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
      ({ rows, ...workload }) => `### ${workload.title}\n\n\`${workload.name}\`\n\n${table(workload, rows)}`,
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
    { title: 'Rates beside the baseline', suffix: 'rates', groups: rates, scale: { from: 0.01, to: 1_000 } },
    { title: 'The longest wait, in medians', suffix: 'waits', groups: waits, scale: { from: 1, to: 100_000 } },
  ];
}

/** What others do faster in these results; without failures, since who gives up is done soon. */
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
