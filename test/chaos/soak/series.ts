/** What was measured at one moment of one source: a process, all servers, or all sentinels. */
export interface Sample {
  readonly minute: number;
  readonly source: string;
  readonly values: Readonly<Record<string, number>>;
}

/** One quantity of one source over time. */
export interface Series {
  readonly source: string;
  readonly name: string;
  readonly minutes: readonly number[];
  readonly values: readonly number[];
}

/** The samples by source and quantity. A kind of resource that is not there has been counted: it is 0. */
export function seriesOf(samples: readonly Sample[]): Series[] {
  const sources = [...new Set(samples.map(({ source }) => source))];
  return sources.flatMap((source) => {
    const own = samples.filter((sample) => sample.source === source);
    const names = [...new Set(own.flatMap(({ values }) => Object.keys(values)))];
    const minutes = own.map(({ minute }) => minute);
    return names.map((name) => ({ source, name, minutes, values: own.map(({ values }) => values[name] ?? 0) }));
  });
}
