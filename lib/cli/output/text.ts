import { printable, UNPRINTABLE } from '../../core/printable.js';

const escaped = (char: string): string =>
  [...Array(char.length).keys()].map((i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`).join('');

/** One line of JSON that no terminal acts on; it parses to the value as it is. */
export const jsonLine = (value: unknown): string => `${JSON.stringify(value).replace(UNPRINTABLE, escaped)}\n`;

/** A duration for people: its two largest units. */
export function durationText(ms: number): string {
  const seconds = Math.max(ms, 0) / 1_000;
  if (seconds < 10) return `${(Math.floor(seconds * 10) / 10).toFixed(1)}s`;
  const whole = Math.floor(seconds);
  const units: [name: string, count: number][] = [
    ['d', Math.floor(whole / 86_400)],
    ['h', Math.floor(whole / 3_600) % 24],
    ['m', Math.floor(whole / 60) % 60],
    ['s', whole % 60],
  ];
  const first = units.findIndex(([, count]) => count > 0);
  return units
    .slice(first, first + 2)
    .map(([name, count]) => `${count}${name}`)
    .join(' ');
}

/** A moment for people, in UTC: `2026-03-01 03:12:45Z`. */
export const timeText = (date: Date): string =>
  Number.isNaN(date.getTime()) ? '-' : `${date.toISOString().slice(0, 19).replace('T', ' ')}Z`;

/** A key or another text of somebody, for a table: `-` when it is empty. */
export const shown = (text: string): string => (text === '' ? '-' : printable(text));

export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;
