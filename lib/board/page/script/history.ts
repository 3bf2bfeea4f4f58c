/** What has happened to locks: a part of the view of one lock, and a view of all. */
export const HISTORY = String.raw`
const NO_HISTORY = 'This app keeps no history of its locks: the option history: true of RedisLockModule turns it on.';

const lastShown = (history) =>
  history && history.entries.length >= history.limit ? 'The last ' + history.limit + ' entries are shown.' : '';

const timeOf = ({ event, ms }) =>
  ms === null ? '–' : (event === 'acquired' || event === 'failed' ? 'waited ' : 'held ') + duration(ms);

const CAUSES = {
  forced: ({ by }) => (by ? 'by ' + by : 'by somebody without a name'),
  waited: ({ reason }) => (reason ? 'held by ' + reason : '–'),
  dropped: ({ count: entries }) => count(entries ?? 0, 'entry', 'entries') + ' could not be written',
};
const causeOf = (entry) => CAUSES[entry.event]?.(entry) ?? (entry.reason || '–');

const TIME_COLUMN = textColumn('Time', ({ at }) => dateTime(at), { number: true });
const ENTRY_COLUMNS = [
  textColumn('Event', ({ event }) => event),
  textColumn('Instance', ({ instance }) => instance),
  textColumn('Method', workOf),
  textColumn('How long', timeOf, { number: true }),
  textColumn('Reason', causeOf),
  textColumn('Token', ({ token }) => token || '–', { number: true, code: true }),
];

/** The history of one lock. */
function historyPart() {
  const table = makeTable('History, the newest first', [TIME_COLUMN, ...ENTRY_COLUMNS], ({ id }) => id);
  const notice = el('p', { class: 'notice', hidden: '' });
  const update = (history) => {
    const entries = history?.entries ?? [];
    table.update(entries);
    const nothing = history ? 'The history tells nothing of this lock.' : NO_HISTORY;
    setText(notice, entries.length > 0 ? lastShown(history) : nothing);
    notice.hidden = notice.textContent === '';
  };
  return { elements: [el('h3', {}, 'History'), table.element, notice], update };
}

/** The history of all locks. */
function historyView() {
  const columns = [TIME_COLUMN, keyColumn('Lock', ({ key }) => key), ...ENTRY_COLUMNS];
  return listView({
    title: 'History',
    table: makeTable('History, the newest first', columns, ({ id }) => id),
    itemsOf: ({ history }) => history?.entries ?? [],
    about: ({ history }) => lastShown(history),
    empty: ({ history }) => (history ? 'The history tells nothing yet.' : NO_HISTORY),
    filtered: ({ key }) => printable(key),
  });
}
`;
