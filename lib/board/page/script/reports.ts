/** The views of what has happened. */
export const REPORTS = String.raw`
/** The jobs, with their last run and, for those of this app, their next fire. */
function jobsView() {
  const lastOf = (show) => ({ last }) => (last ? show(last) : '–');
  const columns = [
    textColumn('Job', ({ name }) => name),
    keyColumn('Lock', ({ key }) => key),
    textColumn('Last fire', lastOf(({ fire }) => dateTime(fire)), { number: true }),
    textColumn('Ran on', lastOf(({ instance }) => instance)),
    textColumn('Outcome', ({ last, problem }) => problem ?? (last ? last.outcome : '–')),
    textColumn('Took', lastOf(({ ranMs, outcome }) => duration(ranMs) + (outcome === 'running' ? ' so far' : ''))),
    textColumn('Next fire', ({ next }) => (next === null ? '–' : dateTime(next)), { number: true }),
    leftColumn('Due in', ({ nextInMs }) => nextInMs, 'now'),
  ];
  return listView({
    title: 'Jobs',
    table: makeTable('Jobs', columns, ({ key, name }) => name + ' ' + key),
    itemsOf: ({ jobs }) => jobs,
    about: ({ jobs, hasMore }) => (hasMore ? 'There are more than the ' + jobs.length + ' jobs that are shown.' : ''),
    empty: () =>
      'This app has no job that is locked with oncePer, and no run of one is known. Put @Locked with oncePer on a scheduled method to see its runs here.',
  });
}

/** What the last losses were. */
function lossesView() {
  const columns = [
    keyColumn('Lock', ({ key }) => key),
    textColumn('Lost at', ({ at }) => dateTime(at), { number: true }),
    textColumn('Reason', ({ reason }) => reason),
    textColumn('Instance', ({ instance }) => instance),
    textColumn('Method', ({ where }) => where || '–'),
    textColumn('Mode', ({ mode }) => mode),
    textColumn('Held for', ({ heldMs }) => duration(heldMs), { number: true }),
    textColumn('Token', ({ token }) => token || '–', { number: true, code: true }),
  ];
  return listView({
    title: 'Losses',
    table: makeTable('Losses', columns, ({ id, key }) => id + key),
    itemsOf: ({ losses }) => losses,
    about: ({ losses, limit, searched }) =>
      (searched === null
        ? 'The losses of this instance since it started. With the option history: true of RedisLockModule, those of all instances.'
        : 'The losses of all instances in the last ' + searched + ' entries of the history, and of this one since it started.') +
      (losses.length < limit ? '' : ' There may be more than the last ' + limit + ', which are shown.'),
    empty: ({ searched }) =>
      searched === null
        ? 'This instance has lost no lock since it started. It does not know what other instances have lost.'
        : 'No lock was lost, as far as is known.',
  });
}
`;
