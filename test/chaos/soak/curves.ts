import { type Series, boundOf } from './verdict.js';

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
