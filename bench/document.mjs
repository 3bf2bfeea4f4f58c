// Writes docs/performance.md and its picture.
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { spawnSync } from 'node:child_process';
import { ensureRedisServer } from '../scripts/redis.mjs';
import { BASELINE, versions } from './candidates/index.mjs';
import { table } from './table.mjs';

const INTRODUCTION = `# Performance

\`npm run bench -- --full\` wrote this document. \`npm run bench\` measures the same with the best package of each workload beside ours, and
\`npm run bench -- NAME\` one workload; \`npm run bench -- --help\` lists them.

The baseline ("${BASELINE}") is the shortest code that people write by hand: \`SET key token NX PX\` and a Lua compare-and-delete on one
connection of ioredis; when the lock is busy, it polls every millisecond. It has no fencing token, no renewal, no queue and no events.
Ours runs with its defaults and does all of that.

Each candidate runs in a process of its own. Its slices lie between slices of the baseline, all on one server. "Of the baseline" is the
median of the ratios to the two slices beside it, with quartiles. Compare the ratios: rates depend on the machine and on what else runs
on it. Other packages run at their defaults and, with ", 1 ms", with the shortest delay between two tries and no limit of tries.
Commands are what a client sends, \`redis.call\` is what its scripts call; both, and the promises, timers and bytes, are per acquire and
release, and are counted in slices of their own.`;

/** @param {string} file where to write; the picture gets the same name. */
export function writeDocument(file, results) {
  const picture = file.replace(/\.md$/, '.svg');
  const sections = results.map(
    ({ rows, ...workload }) => `### ${workload.title}\n\n\`${workload.name}\`\n\n${table(workload, rows)}`,
  );
  writeFileSync(picture, bars(results.filter(({ measure }) => measure === 'compare')));
  const text = [
    INTRODUCTION,
    machine(),
    `![Rates beside the baseline](${picture.replace(`${dirname(file)}/`, '')})`,
    ...sections,
  ];
  writeFileSync(file, `${text.join('\n\n')}\n`);
  spawnSync(join('node_modules', '.bin', 'prettier'), ['--write', file], { stdio: 'ignore' });
}

function machine() {
  const redis = spawnSync(ensureRedisServer(), ['--version'], { encoding: 'utf8' });
  const [, version] = /v=([\d.]+)/.exec(redis.stdout);
  const packages = Object.entries(versions()).map(([name, one]) => `${name} ${one}`);
  return `Measured on ${cpus().length} cores with Node ${process.versions.node} and Redis ${version}; ${packages.join(', ')}.`;
}

const ROW = 16;
const WIDTH = 900;
const LEFT = 210;
const SCALE = 150;

/** A bar for each candidate: its rate as a ratio to the baseline, on a logarithmic scale, with its quartiles. */
function bars(results) {
  let top = 10;
  const parts = [];
  const x = (ratio) => LEFT + 2 * SCALE + SCALE * Math.log10(Math.min(Math.max(ratio, 0.01), 1_000));
  for (const { title, rows } of results) {
    parts.push(`<text x="10" y="${(top += 18)}" font-weight="bold">${escape(title)}</text>`);
    top += 6;
    const from = top;
    for (const { name, ratios } of rows.filter((row) => row.ratios)) {
      const { median, low, high } = ratios.rate;
      const color = name.startsWith('nestjs-redis-lock') ? '#2a6fbb' : '#b9c2cc';
      const [one, end] = [x(1), x(median)];
      const box = `x="${Math.min(one, end).toFixed(1)}" width="${Math.abs(end - one).toFixed(1)}"`;
      parts.push(`<text x="${LEFT - 8}" y="${top + 11}" text-anchor="end">${escape(name)}</text>`);
      parts.push(`<rect ${box} y="${top + 2}" height="${ROW - 5}" fill="${color}"/>`);
      parts.push(`<path d="M${x(low).toFixed(1)} ${top + 7.5}H${x(high).toFixed(1)}" stroke="#333"/>`);
      parts.push(
        `<text x="${(Math.max(end, one, x(high)) + 6).toFixed(1)}" y="${top + 11}">${median.toFixed(2)}</text>`,
      );
      top += ROW;
    }
    parts.push(`<path d="M${x(1)} ${from}V${top}" stroke="#999"/>`);
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${top + 20}" font-family="sans-serif" font-size="11" fill="#333">`,
    '<rect width="100%" height="100%" fill="#fff"/>',
    ...parts,
    '</svg>\n',
  ].join('\n');
}

const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
