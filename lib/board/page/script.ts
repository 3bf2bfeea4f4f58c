import { UNPRINTABLE } from '../../core/printable.js';

/**
 * The script of the page, as one ES module. It is kept as text: browsers run it as it is, and neither a bundler nor a compiler of the
 * app has to find a file for it. test/unit/board/script.spec.ts checks it as TypeScript checks JavaScript.
 */
export const SCRIPT = String.raw`// How the page makes elements. Every text goes through a text node, so a key can bring no markup.

/** Makes an element. Attributes that are undefined are left out; texts become text nodes. */
function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value !== undefined) element.setAttribute(attribute, value);
  }
  element.append(...children);
  return element;
}

const byId = (id) => document.getElementById(id);

/** Changes a text only when it differs, so that a screen reader and a selection are left alone. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Shows characters that are invisible, or turn the direction of a text, by their code. */
const printable = (text) =>
  text.replace(/${UNPRINTABLE.source}| (?= *$)/gu, (char) => '\\u{' + char.codePointAt(0).toString(16) + '}');

const UNITS = [
  [86400000, 'd'],
  [3600000, 'h'],
  [60000, 'min'],
  [1000, 's'],
];

/** A duration with its two largest units. */
function duration(ms) {
  if (ms < 1000) return Math.max(0, Math.round(ms / 100) / 10).toFixed(1) + ' s';
  const at = UNITS.findIndex(([size]) => ms >= size);
  const [size, unit] = UNITS[at];
  const [smaller, part] = UNITS[at + 1] ?? [];
  const rest = smaller ? Math.floor((ms % size) / smaller) : 0;
  return Math.floor(ms / size) + ' ' + unit + (rest > 0 ? ' ' + rest + ' ' + part : '');
}

const count = (number, one, many) => number + ' ' + (number === 1 ? one : many);

const clockTime = (ms) => new Date(ms).toLocaleTimeString();
const dateTime = (ms) => new Date(ms).toLocaleString();

const addressOf = (key) => '#/lock/' + encodeURIComponent(key);

function lockLink() {
  return el('a', { class: 'key', dir: 'ltr' });
}

function setLink(link, key) {
  setText(link, printable(key));
  if (link.dataset.key === key) return;
  link.dataset.key = key;
  link.href = addressOf(key);
  link.title = printable(key);
}

/** What goes on between two messages: lease bars and ages, by the element that shows them. */
const ticking = new Map();

/** Calls update now and twice a second with the milliseconds since the state came, until the element is gone or gets another one. */
function live(element, update) {
  const { cameAt } = stream;
  const updateNow = () => update(performance.now() - cameAt);
  ticking.set(element, updateNow);
  updateNow();
}

setInterval(() => {
  for (const [element, update] of ticking) {
    if (element.isConnected) update();
    else ticking.delete(element);
  }
}, 500);

const KEPT_NEWS = 5;

/** Tells a screen reader something; each time it is told, even if the text is the same as before. */
function tell(text) {
  const news = byId('news');
  news.append(el('p', {}, text));
  if (news.childElementCount > KEPT_NEWS) news.firstElementChild.remove();
}

// Tables whose rows stay where they are when only their contents change.

/**
 * Makes a table. A column has a title and make(cell), which returns a function that shows an item in the cell. The first column
 * names the row. update(items) shows these items; idOf tells which row an item has.
 */
function makeTable(caption, columns, idOf) {
  const rows = new Map();
  const body = el('tbody', { role: 'rowgroup' });
  const titles = columns.map(({ title }) => el('th', { scope: 'col', role: 'columnheader' }, title));
  const head = el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, ...titles));
  const table = el('table', { role: 'table' }, el('caption', { class: 'hidden' }, caption), head, body);
  const element = el('div', { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: '0' }, table);
  const update = (items) => {
    const ids = new Set(items.map(idOf));
    for (const [id, row] of rows) {
      if (ids.has(id)) continue;
      row.element.remove();
      rows.delete(id);
    }
    let next = body.firstChild;
    for (const item of items) {
      const row = rows.get(idOf(item)) ?? makeRow(columns);
      rows.set(idOf(item), row);
      for (const show of row.shows) show(item, row.element);
      if (row.element === next) next = next.nextSibling;
      else body.insertBefore(row.element, next);
    }
    element.hidden = items.length === 0;
  };
  return { element, update };
}

function makeRow(columns) {
  const element = el('tr', { role: 'row' });
  const shows = columns.map(({ title, make, number }, at) => {
    const attributes = at === 0 ? { scope: 'row', role: 'rowheader' } : { role: 'cell' };
    const cell = el(at === 0 ? 'th' : 'td', { ...attributes, 'data-label': title, class: number ? 'number' : undefined });
    element.append(cell);
    return make(cell);
  });
  return { element, shows };
}

/** A column of texts. */
const textColumn = (title, textOf, options = {}) => ({
  title,
  ...options,
  make: (cell) => {
    const text = el('span', { class: options.code ? 'code' : undefined, dir: 'auto' });
    cell.append(text);
    return (item) => setText(text, printable(textOf(item)));
  },
});

/** A column of links to locks; without a key, there is none. */
const keyColumn = (title, keyOf) => ({
  title,
  make: (cell) => {
    const link = lockLink();
    cell.append(link);
    return (item) => {
      const key = keyOf(item);
      link.hidden = key === '';
      setLink(link, key);
    };
  },
});

/** A column of durations that go on; msOf may return null. */
const ageColumn = (title, msOf) => ({
  title,
  number: true,
  make: (cell) => {
    const text = el('span');
    cell.append(text);
    return (item) => {
      const ms = msOf(item);
      live(text, (passed) => setText(text, ms === null ? '–' : duration(ms + passed)));
    };
  },
});

/** A column of what is left of a time, then the text over; with a bar if there is anything to measure it by. */
const leftColumn = (title, msOf, over, fullOf = () => 0) => ({
  title,
  number: true,
  make: (cell) => {
    const text = el('span');
    const bar = el('progress', { 'aria-hidden': 'true', max: '1' });
    cell.append(text, bar);
    return (item) => {
      const [ms, full] = [msOf(item), fullOf(item)];
      bar.hidden = ms === null || !full;
      live(text, (passed) => {
        const left = ms === null ? 0 : Math.max(0, ms - passed);
        setText(text, ms === null ? '–' : left === 0 ? over : duration(left));
        if (full) bar.value = left / full;
        bar.classList.toggle('low', left < full / 4);
      });
    };
  },
});

/** Marks a row for a moment when what it shows belongs to another than before. */
const marking = (column, ownerOf) => ({
  ...column,
  make: (cell) => {
    const show = column.make(cell);
    let owner;
    return (item, row) => {
      show(item, row);
      const next = ownerOf(item);
      if (owner !== undefined && owner !== next) {
        row.classList.add('changed');
        setTimeout(() => row.classList.remove('changed'), 4000);
      }
      owner = next;
    };
  },
});

// The connection to the app: one stream of server-sent events at a time, for what the page shows.

/** An address beside this script: it works under any prefix, and behind any proxy. */
const urlOf = (path, query = {}) => {
  const url = new URL(path, import.meta.url);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url;
};

const TRY_AGAIN_MS = 2000;

const stream = { source: null, topic: '', timer: 0, state: null, cameAt: 0, isBroken: false, error: null, about: {}, onState: () => {} };

/** Listens to a topic: what the query names. Goes on with what it has if that is the same. */
function listen(query, onState) {
  const topic = String(urlOf('events', query));
  stream.onState = onState;
  if (topic === stream.topic) {
    if (stream.state) onState(stream.state);
    return;
  }
  stream.topic = topic;
  stream.state = null;
  stream.error = null;
  showTrouble();
  connect();
}

function connect() {
  clearTimeout(stream.timer);
  stream.source?.close();
  // A browser has six connections to a host: a tab that is not seen leaves them to the others.
  if (document.hidden) return;
  const source = (stream.source = new EventSource(stream.topic));
  source.addEventListener('board', ({ data }) => {
    stream.about = JSON.parse(data);
    setText(byId('connection'), stream.about.connection === null ? '' : ' of ' + printable(stream.about.connection));
    if (stream.isBroken) tell('Connected again.');
    stream.isBroken = false;
    showTrouble();
  });
  source.addEventListener('state', ({ data }) => {
    if (stream.error) tell('Redis answers again.');
    stream.error = null;
    stream.state = JSON.parse(data);
    stream.state.receivedAt = Date.now();
    stream.cameAt = performance.now();
    showTrouble();
    stream.onState(stream.state);
  });
  // The app ends each stream after a while, and asks its guard before the next one.
  source.addEventListener('again', connect);
  source.addEventListener('failed', ({ data }) => {
    stream.error = JSON.parse(data);
    showTrouble();
  });
  source.addEventListener('error', () => {
    stream.isBroken = true;
    showTrouble();
    // A browser does not try again after an answer that is no stream, such as one of a proxy.
    if (source.readyState === EventSource.CLOSED) stream.timer = setTimeout(connect, TRY_AGAIN_MS);
  });
}

document.addEventListener('visibilitychange', connect);

/** Says what is wrong, and how old the page is meanwhile. */
function showTrouble() {
  const { isBroken, error, state } = stream;
  byId('banner').hidden = !isBroken && !error;
  const since = state ? ' This page shows what was known at ' + clockTime(state.receivedAt) + '.' : '';
  if (isBroken) {
    setText(byId('banner-title'), 'The app does not answer.');
    setText(byId('banner-text'), 'The page tries to connect again. If you have to log in, reload the page.' + since);
  } else if (error) {
    setText(byId('banner-title'), error.isAway ? 'Redis cannot be reached.' : 'This cannot be read.');
    setText(byId('banner-text'), printable(error.error) + since);
  }
}

// What a reader can do.

/** The button that takes a lock away, after it has asked again. onDone gets a sentence about the outcome, and whether it is bad. */
function releaseButton(key, onDone) {
  const button = el('button', { type: 'button', class: 'danger' }, 'Force release…');
  button.addEventListener('click', async () => {
    const isWanted = await confirmed(
      'Take this lock away?',
      [printable(key), 'All its holders are told that they lost it, but their work may still be running. The next caller in the queue gets the lock.'],
      'Force release',
    );
    button.focus();
    if (!isWanted) return;
    button.disabled = true;
    const [text, isBad] = await forceRelease(key);
    button.disabled = false;
    onDone(text, isBad);
    tell(text);
  });
  return button;
}

async function forceRelease(key) {
  try {
    const answer = await fetch(urlOf('force-release'), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-lock-board': 'force-release' },
      body: JSON.stringify({ key }),
    });
    const body = await answer.json();
    if (!answer.ok) return ['Not released: ' + printable(String(body.error ?? body.message ?? answer.status)), true];
    return [body.wasHeld ? 'Released. Its holders are told.' : 'Nobody held it any more.', false];
  } catch (error) {
    return ['Not released: the app did not answer (' + printable(error.message) + ').', true];
  }
}

/** Asks; resolves to whether the answer is yes. The first button has the focus, and Escape means no. */
function confirmed(question, texts, yes) {
  return new Promise((resolve) => {
    const no = el('button', { type: 'button', autofocus: '' }, 'Cancel');
    const sure = el('button', { type: 'button', class: 'danger' }, yes);
    const [key, text] = texts;
    const dialog = el(
      'dialog',
      { 'aria-labelledby': 'question', 'aria-describedby': 'consequence' },
      el('h2', { id: 'question' }, question),
      el('p', { class: 'key', dir: 'ltr' }, key),
      el('p', { id: 'consequence' }, text),
      el('div', { class: 'tools' }, no, sure),
    );
    let isWanted = false;
    no.addEventListener('click', () => dialog.close());
    sure.addEventListener('click', () => {
      isWanted = true;
      dialog.close();
    });
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(isWanted);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// The views of all locks.

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

// The views of what has happened.

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

// What has happened to locks: a part of the view of one lock, and a view of all.

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

// The view of one lock.

function lockView(key) {
  const facts = el('dl');
  const notice = el('p', { class: 'notice', hidden: '' });
  const tools = el('div', { class: 'tools' });
  const holders = makeTable('Holders', HOLDER_COLUMNS, ({ attempt }) => attempt);
  const queue = makeTable('Queue, in order', QUEUE_COLUMNS, ({ attempt }) => attempt);
  const past = historyPart();
  const nobody = el('p', { class: 'notice', hidden: '' }, 'Nobody holds this lock now.');
  const noQueue = el('p', { class: 'notice', hidden: '' });
  const element = el(
    'section',
    {},
    el('h2', { tabindex: '-1', class: 'key', dir: 'ltr' }, printable(key)),
    facts,
    tools,
    notice,
    el('h3', {}, 'Holders'),
    holders.element,
    nobody,
    el('h3', {}, 'Queue'),
    queue.element,
    noQueue,
    ...past.elements,
  );
  let before;
  const update = ({ lock, history }) => {
    showFacts(facts, lock);
    if (stream.about.canForceRelease && !tools.hasChildNodes()) tools.append(releaseButton(key, showOutcome(notice)));
    holders.update(lock.holders);
    nobody.hidden = lock.holders.length > 0;
    queue.update(lock.queue);
    noQueue.hidden = lock.queue.length > 0 && lock.waiters <= lock.queueCount;
    const others = lock.waiters - lock.queueCount;
    setText(noQueue, others > 0 ? withoutPlace(others) : 'Nobody waits.');
    past.update(history);
    const now = lock.holders.map(({ instance }) => instance).join(', ') || 'nobody';
    if (before !== undefined && before !== now) tell('Now held by ' + printable(now) + '.');
    before = now;
  };
  return { element, update };
}

const showOutcome = (notice) => (text, isBad) => {
  notice.hidden = false;
  notice.classList.toggle('bad', isBad);
  setText(notice, text);
};

function showFacts(list, lock) {
  const shown = (all, some) => (all > some ? ' (the first ' + some + ' are shown)' : '');
  const facts = [
    ['State', lock.mode === 'free' ? 'free' : lock.mode === 'write' ? 'held for writing' : 'held for reading'],
    ['Holders', lock.holderCount + shown(lock.holderCount, lock.holders.length)],
    ['Permits', lock.permits ? lock.permits.used + ' of ' + lock.permits.allowed + ' are taken' : '–'],
    ['Waiting', lock.waiters + shown(lock.queueCount, lock.queue.length)],
    ['Last token', lock.token === '0' ? 'none is remembered' : lock.token],
  ];
  if (!list.hasChildNodes()) list.append(...facts.flatMap(([name]) => [el('dt', {}, name), el('dd')]));
  const values = list.querySelectorAll('dd');
  facts.forEach(([, value], at) => setText(values[at], String(value)));
}

const HOLDER_COLUMNS = [
  textColumn('Holder', ({ instance }) => instance),
  textColumn('Method', workOf),
  textColumn('Mode', ({ mode }) => mode),
  textColumn('Since', ({ since }) => dateTime(since)),
  ageColumn('Held for', ({ heldMs }) => heldMs),
  leftColumn('Lease left', ({ remainingMs }) => remainingMs, 'over', fullLease),
  textColumn('Token', ({ token }) => (token === '0' ? 'released; kept for holdAtLeastMs' : token), { number: true, code: true }),
];

const QUEUE_COLUMNS = [
  textColumn('Place', ({ place }) => String(place), { number: true }),
  textColumn('Who waits', ({ instance }) => instance),
  textColumn('Method', workOf),
  textColumn('Mode', ({ mode }) => mode),
  ageColumn('Waits for', ({ waitedMs }) => waitedMs),
  leftColumn('Gives up in', ({ leftMs }) => leftMs, 'overdue'),
];

// Which view is shown. Each has an address, after the # of the page.

const VIEWS = {
  '': { title: 'Held locks', make: heldView, query: { view: 'locks' } },
  waits: { title: 'What waits longest', make: waitsView, query: { view: 'locks' } },
  history: { title: 'History', make: historyView, query: { view: 'history' } },
  jobs: { title: 'Jobs', make: jobsView, query: { view: 'jobs' } },
  losses: { title: 'Losses', make: lossesView, query: { view: 'losses' } },
  instances: { title: 'Instances', make: instancesView, query: { view: 'locks' } },
};

/** The view that an address names; the held locks for any other address. */
function viewOf(hash) {
  const [name, ...rest] = hash.replace(/^#\/?/, '').split('/');
  if (name !== 'lock' || rest.length === 0) return VIEWS[Object.hasOwn(VIEWS, name) ? name : ''];
  try {
    const key = decodeURIComponent(rest.join('/'));
    return { title: printable(key), make: () => lockView(key), query: { view: 'lock', key } };
  } catch {
    return VIEWS[''];
  }
}

function showSummary(state) {
  const at = 'Updated at ' + clockTime(state.receivedAt) + '.';
  if (!state.locks) return setText(byId('summary'), at);
  const waiting = sumOf(state.locks, ({ waiters }) => waiters);
  const held = state.locks.filter(({ mode }) => mode === 'read' || mode === 'write').length;
  const more = state.hasMore ? ' There are more than the ' + state.limit + ' locks that this page shows.' : '';
  const atLeast = state.hasMore ? 'At least ' : '';
  const text = atLeast + count(held, 'lock is', 'locks are') + ' held, ' + count(waiting, 'call waits.', 'calls wait.');
  setText(byId('summary'), text + more + ' ' + at);
}

let isFirst = true;

function showView() {
  const { title, make, query } = viewOf(location.hash);
  const view = make();
  byId('main').replaceChildren(view.element);
  document.title = title + ' · Locks';
  for (const link of byId('views').querySelectorAll('a')) {
    if (VIEWS[link.hash.replace('#/', '')]?.title === title) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  setText(byId('summary'), 'Asking Redis…');
  listen(query, (state) => {
    view.update(state);
    showSummary(state);
  });
  // Who follows a link reads on at the new heading.
  if (!isFirst) view.element.querySelector('h2').focus();
  isFirst = false;
}

byId('skip').addEventListener('click', (event) => {
  event.preventDefault();
  byId('main').focus();
});
addEventListener('hashchange', showView);
showView();
`;
