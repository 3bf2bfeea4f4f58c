import { groupBy } from '../checker/spans.js';
import { type Sample, type Verdict, boundOf } from './verdict.js';

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
