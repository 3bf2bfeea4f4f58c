/** The views of all locks. */
export const LISTS = String.raw`
/** The longest lease that the page saw of each hold, by attempt: the bars are measured by it. Those last seen are the last. */
const fullLeases = new Map();

/** As many as the list of all locks and the view of one can show. */
const MAX_FULL_LEASES = 11000;

function fullLease({ attempt, remainingMs }) {
  const full = Math.max(remainingMs, fullLeases.get(attempt) ?? 0);
  fullLeases.delete(attempt);
  fullLeases.set(attempt, full);
  if (fullLeases.size > MAX_FULL_LEASES) fullLeases.delete(fullLeases.keys().next().value);
  return full;
}

const byKey = (a, b) => (a.key < b.key ? -1 : Number(a.key > b.key));
const workOf = ({ where, note }) => [where, note].filter(Boolean).join(': ') || '–';

/**
 * A view with a heading, and the sentence empty in place of its table when that is empty. about gives a sentence on what is shown.
 * Both sentences depend on the state; until there is one, the view says nothing.
 */
function listView({ title, table, itemsOf, about = () => '', empty, filtered }) {
  const summary = el('p', { class: 'soft', hidden: '' });
  const nothing = el('p', { class: 'notice', hidden: '' });
  const search = el('input', { type: 'search', id: 'filter', autocomplete: 'off', spellcheck: 'false' });
  const tools = el('div', { class: 'tools' }, el('label', { for: 'filter' }, 'Show keys with'), search);
  let items = [];
  let instead = '';
  const show = () => {
    const wanted = search.value;
    const shown = filtered ? items.filter((item) => filtered(item).includes(wanted)) : items;
    table.update(shown);
    setText(nothing, wanted && items.length > 0 ? 'No key has this text.' : instead);
    nothing.hidden = shown.length > 0 || instead === '';
  };
  search.addEventListener('input', show);
  const heading = el('h2', { tabindex: '-1' }, title);
  const children = [heading, summary, ...(filtered ? [tools] : []), table.element, nothing];
  return {
    element: el('section', {}, ...children),
    update: (state) => {
      items = itemsOf(state);
      instead = empty(state);
      setText(summary, about(state));
      summary.hidden = summary.textContent === '';
      show();
    },
  };
}

/** The rows of one lock: a holder each, and how many are not shown. */
function holdersOf(lock) {
  const { holders, holderCount } = lock;
  const more = holderCount - holders.length;
  const shown = holderCount > 0 ? holders : [null];
  return [...shown.map((holder) => ({ holder })), ...(more > 0 ? [{ more }] : [])].map((row, at) => ({ lock, at, ...row }));
}

/** The held locks, a row for each holder. */
function heldView() {
  const holderOf = ({ lock, holder, more }) => {
    if (more) return 'and ' + count(more, 'more holder', 'more holders');
    return holder ? holder.instance : lock.problem || 'nobody; it is free for the next caller';
  };
  const columns = [
    keyColumn('Lock', ({ lock }) => lock.key),
    marking(textColumn('Holder', holderOf), ({ holder }) => holder?.attempt),
    textColumn('Method', ({ holder }) => (holder ? workOf(holder) : '–')),
    textColumn('Mode', ({ lock, holder }) => holder?.mode ?? lock.mode),
    ageColumn('Held for', ({ holder }) => holder?.heldMs ?? null),
    leftColumn('Lease left', ({ holder }) => holder?.remainingMs ?? null, 'over', ({ holder }) => holder && fullLease(holder)),
    textColumn('Token', ({ holder }) => holder?.token ?? '–', { number: true, code: true }),
    textColumn('Waiting', ({ lock, at }) => (at === 0 ? String(lock.waiters) : ''), { number: true }),
  ];
  return listView({
    title: 'Held locks',
    table: makeTable('Held locks', columns, ({ lock, at }) => lock.key + '\n' + at),
    itemsOf: ({ locks }) => locks.sort(byKey).flatMap(holdersOf),
    empty: () => 'Nobody holds a lock at the moment. As soon as a method with @Locked runs, its lock is shown here.',
    filtered: ({ lock }) => printable(lock.key),
  });
}

/** The rows of those who wait for one lock, and how many are not shown; that row follows those. */
function waitersOf(lock) {
  const { queue, queueCount } = lock;
  const more = queueCount - queue.length;
  const rows = queue.map((waiter) => ({ lock, waiter, waitedMs: waiter.waitedMs }));
  return more > 0 ? [...rows, { lock, more, waitedMs: Math.min(...queue.map(({ waitedMs }) => waitedMs)) }] : rows;
}

const sumOf = (items, numberOf) => items.reduce((sum, item) => sum + numberOf(item), 0);

const withoutPlace = (waiters) =>
  waiters === 0
    ? ''
    : count(waiters, 'call waits without a place of its', 'calls wait without a place of their') + ' own in the queue: ' +
      'calls that are not fair, calls in a quorum, and calls behind another one of their process.';

const firstHolder = ({ holders }) => (holders[0] ? holders[0].instance + ' ' + holders[0].where : 'nobody');

/** All that waits, the longest first. */
function waitsView() {
  const columns = [
    keyColumn('Lock', ({ lock }) => lock.key),
    ageColumn('Waits for', ({ waiter }) => waiter?.waitedMs ?? null),
    textColumn('Who waits', ({ waiter, more }) => (waiter ? waiter.instance : 'and ' + more + ' more')),
    textColumn('Method', ({ waiter }) => (waiter ? workOf(waiter) : '–')),
    textColumn('Place', ({ waiter }) => (waiter ? String(waiter.place) : '–'), { number: true }),
    leftColumn('Gives up in', ({ waiter }) => waiter?.leftMs ?? null, 'overdue'),
    textColumn('Held by', ({ lock }) => firstHolder(lock)),
  ];
  return listView({
    title: 'What waits longest',
    table: makeTable('What waits longest', columns, ({ lock, waiter }) => lock.key + '\n' + (waiter?.attempt ?? '')),
    itemsOf: ({ locks }) => locks.flatMap(waitersOf).sort((a, b) => b.waitedMs - a.waitedMs),
    about: ({ locks }) => withoutPlace(sumOf(locks, ({ waiters, queueCount }) => Math.max(0, waiters - queueCount))),
    empty: () => 'Nobody waits in the queue of a lock. Callers that are not fair, or that wait in a quorum, have no place in a queue.',
    filtered: ({ lock }) => printable(lock.key),
  });
}

/** What each instance holds and waits for. */
function instancesView() {
  const keys = ({ held, waits }) => [...new Set([...held, ...waits].map(({ key }) => key))].sort();
  const columns = [
    textColumn('Instance', ({ instance }) => instance),
    textColumn('Holds', ({ held }) => String(held.length), { number: true }),
    textColumn('Waits', ({ waits }) => String(waits.length), { number: true }),
    ageColumn('Longest hold', ({ held }) => (held.length > 0 ? Math.max(...held.map(({ heldMs }) => heldMs)) : null)),
    ageColumn('Longest wait', ({ waits }) => (waits.length > 0 ? Math.max(...waits.map(({ waitedMs }) => waitedMs)) : null)),
    linksColumn('Locks', keys),
  ];
  return listView({
    title: 'Instances',
    table: makeTable('Instances', columns, ({ instance }) => instance),
    about: ({ locks }) => {
      const more = sumOf(locks, ({ holders, holderCount, queue, queueCount }) =>
        holderCount - holders.length + queueCount - queue.length);
      return more === 0 ? '' : 'There are ' + more + ' more holders and waiters of long lists, so the numbers are at least these.';
    },
    itemsOf: ({ locks }) => {
      const instances = new Map();
      const of = (instance) => {
        if (!instances.has(instance)) instances.set(instance, { instance, held: [], waits: [] });
        return instances.get(instance);
      };
      for (const { key, holders, queue } of locks) {
        for (const { instance, heldMs } of holders) of(instance).held.push({ key, heldMs });
        for (const { instance, waitedMs } of queue) of(instance).waits.push({ key, waitedMs });
      }
      return [...instances.values()].sort((a, b) => (a.instance < b.instance ? -1 : 1));
    },
    empty: () => 'No instance holds a lock or waits for one at the moment.',
  });
}

const LINKS_SHOWN = 5;

/** A column of several links to locks. */
const linksColumn = (title, keysOf) => ({
  title,
  make: (cell) => {
    let shown = '';
    return (item) => {
      const keys = keysOf(item);
      if (shown === keys.join('\n')) return;
      shown = keys.join('\n');
      const links = keys.slice(0, LINKS_SHOWN).map((key) => {
        const link = lockLink();
        setLink(link, key);
        return el('div', {}, link);
      });
      const more = keys.length - links.length;
      cell.replaceChildren(...links, more > 0 ? 'and ' + more + ' more' : '');
    };
  },
});
`;
