import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, relative } from 'node:path';
import { boundOf, type Sample, type Series, type Verdict } from './verdict.js';
import { groupBy } from '../../judge/spans.js';
import { type SoakResult } from './soak.js';

const COLUMNS = 3;
const WIDTH = 300;
const HEIGHT = 130;
const MARGIN = { top: 28, right: 16, bottom: 24, left: 44 };
const COLORS = ['#1f77b4', '#d9670a', '#2a9134', '#8a4fbf', '#d03a4a'];
/** The colours of the theme. The background is set, because not every browser passes the theme of the page to a picture. */
const STYLE =
  '<style>svg{color:#333;background:#fff}@media(prefers-color-scheme:dark){svg{color:#ddd;background:#1b1b1f}}</style>';

/** A small diagram for each quantity, with a line for each source, as SVG. All axes begin at 0. */
export function curves(all: readonly Series[]): string {
  const names = [...new Set(all.map(({ name }) => name))].filter((name) => !name.startsWith('kind '));
  const sources = [...new Set(all.map(({ source }) => source))];
  const panels = names.map((name, i) => {
    const [x, y] = [(i % COLUMNS) * WIDTH, Math.floor(i / COLUMNS) * HEIGHT];
    const series = all.filter((one) => one.name === name);
    return `<g transform="translate(${x} ${y})">${panel(name, series, sources)}</g>`;
  });
  const height = Math.ceil(names.length / COLUMNS) * HEIGHT;
  const legend = sources.map(
    (source, i) =>
      `<rect x="${MARGIN.left + i * 90}" y="${height + 6}" width="10" height="10" fill="${COLORS[i % COLORS.length]}"/>` +
      `<text x="${MARGIN.left + 14 + i * 90}" y="${height + 15}">${source}</text>`,
  );
  const size = `width="${COLUMNS * WIDTH}" height="${height + 26}"`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="11" fill="currentColor">`,
    STYLE,
    ...panels,
    ...legend,
    '</svg>\n',
  ].join('\n');
}

function panel(name: string, all: readonly Series[], sources: readonly string[]): string {
  const { top, right, bottom, left } = MARGIN;
  const lastMinute = Math.max(...all.flatMap(({ minutes }) => minutes));
  const largest = Math.max(1, ...all.flatMap(({ values }) => values)) * 1.1;
  const x = (minute: number): string => (left + (minute / lastMinute) * (WIDTH - left - right)).toFixed(1);
  const y = (value: number): string => (HEIGHT - bottom - (value / largest) * (HEIGHT - top - bottom)).toFixed(1);
  const lines = all.map(({ source, minutes, values }) => {
    const points = minutes.map((minute, i) => `${x(minute)},${y(values[i]!)}`).join(' ');
    return `<polyline points="${points}" fill="none" stroke="${COLORS[sources.indexOf(source) % COLORS.length]}" stroke-width="1.5"/>`;
  });
  const { unit } = boundOf(name);
  return [
    `<text x="${left}" y="${top - 12}" font-weight="bold">${name}${unit ? `, ${unit}` : ''}</text>`,
    `<path d="M${left} ${top}V${HEIGHT - bottom}H${WIDTH - right}" fill="none" stroke="#999"/>`,
    `<text x="${left - 4}" y="${top + 6}" text-anchor="end">${Math.round(largest)}</text>`,
    `<text x="${left - 4}" y="${HEIGHT - bottom}" text-anchor="end">0</text>`,
    `<text x="${WIDTH - right}" y="${HEIGHT - 8}" text-anchor="end">${lastMinute.toFixed(0)} min</text>`,
    ...lines,
  ].join('');
}

function number(value: number): string {
  const digits = Number.isInteger(value) ? 0 : 1;
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: 1 });
}

/** One line of the log of a run. */
export function sampleLine({ minute, source, values }: Sample): string {
  const parts = Object.entries(values).map(([name, value]) => `${name.replace(/^kind /, '')} ${number(value)}`);
  return `${minute.toFixed(1).padStart(5)} min  ${source.padEnd(9)} ${parts.join(', ')}`;
}

/** The verdicts as a table in Markdown; the processes share a row. */
export function table(verdicts: readonly Verdict[]): string {
  const rows = groupBy(verdicts, ({ source, name }) => `${/^w\d+$/.test(source) ? 'processes' : source} | ${name}`);
  const all = (list: readonly Verdict[], of: (one: Verdict) => number): string =>
    list.map((one) => number(of(one))).join(', ');
  return [
    '| of | what | first third | last third | slope, a day | bound | |',
    '| --- | --- | ---: | ---: | ---: | ---: | --- |',
    ...[...rows].map(([title, list]) => {
      const { unit, perDay } = boundOf(list[0]!.name);
      const results = [...new Set(list.map(({ result }) => result))].join(', ');
      const medians = [all(list, ({ first }) => first), all(list, ({ last }) => last)];
      const slopes = all(list, (one) => Math.round(one.perDay) || 0);
      return `| ${title}${unit && `, ${unit}`} | ${medians.join(' | ')} | ${slopes} | ${number(perDay)} | ${results} |`;
    }),
  ].join('\n');
}

const BEGIN = '<!-- soak: written by node scripts/soak.mjs -->';
const END = '<!-- end of soak -->';

/** Writes what a soak found between the marks of a document. */
export function writeSection(file: string, result: SoakResult & { command: string; picture: string }): void {
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, withSection(text, sectionOf({ ...result, picture: relative(dirname(file), result.picture) })));
}

/** @throws Error if the text does not have both marks */
export function withSection(text: string, section: string): string {
  const [from, to] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`The document lacks the marks ${BEGIN} and ${END}.`);
  return `${text.slice(0, from)}${BEGIN}\n\n${section}\n\n${text.slice(to)}`;
}

const sectionOf = ({
  verdicts,
  summary,
  command,
  picture,
}: SoakResult & { command: string; picture: string }): string =>
  [`\`${command}\` printed:`, `\`\`\`text\n${summary}\n\`\`\``, table(verdicts), `![The curves](${picture})`].join(
    '\n\n',
  );
