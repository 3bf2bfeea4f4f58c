// Pictures of figures, as SVG.
import { OURS } from './candidates/index.mjs';

const ROW = 16;
const WIDTH = 900;
const LEFT = 230;
const RIGHT = 60;
/** The colours of the theme. The background is set, because not every browser passes the theme of the page to a picture. */
const STYLE =
  '<style>svg{color:#333;background:#fff}@media(prefers-color-scheme:dark){svg{color:#ddd;background:#1b1b1f}}</style>';

/**
 * Bars on a logarithmic scale, which begin at 1.
 * @param {{ title: string, bars: { name: string, median: number, low?: number, high?: number }[] }[]} groups
 * @param {{ from: number, to: number }} scale
 */
export function plot(groups, { from, to }) {
  const perDecade = (WIDTH - LEFT - RIGHT) / Math.log10(to / from);
  const x = (value) => LEFT + perDecade * Math.log10(Math.min(Math.max(value, from), to) / from);
  const parts = [];
  let top = 10;
  for (const { title, bars } of groups) {
    parts.push(`<text x="10" y="${(top += 18)}" font-weight="bold">${escape(title)}</text>`);
    top += 6;
    const first = top;
    for (const bar of bars) {
      parts.push(...drawn(bar, top, x));
      top += ROW;
    }
    parts.push(`<path d="M${x(1).toFixed(1)} ${first}V${top}" stroke="#999"/>`);
  }
  const size = `width="${WIDTH}" height="${top + 20}"`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="11" fill="currentColor">`,
    STYLE,
    ...parts,
    '</svg>\n',
  ].join('\n');
}

function drawn({ name, median, low = median, high = median }, top, x) {
  const [one, end] = [x(1), x(median)];
  const box = `x="${Math.min(one, end).toFixed(1)}" width="${Math.abs(end - one).toFixed(1)}"`;
  const color = name.startsWith(OURS) ? '#2a6fbb' : '#84909d';
  const after = (Math.max(end, one, x(high)) + 6).toFixed(1);
  const value = median >= 100 ? Math.round(median).toLocaleString('en') : median.toFixed(2);
  return [
    `<text x="${LEFT - 8}" y="${top + 11}" text-anchor="end">${escape(name)}</text>`,
    `<rect ${box} y="${top + 2}" height="${ROW - 5}" fill="${color}"/>`,
    `<path d="M${x(low).toFixed(1)} ${top + 7.5}H${x(high).toFixed(1)}" stroke="currentColor"/>`,
    `<text x="${after}" y="${top + 11}">${value}</text>`,
  ];
}

const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
