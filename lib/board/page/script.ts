import { UNPRINTABLE } from '../../core/printable.js';

/**
 * The script of the page, as one ES module. It is a text: browsers run it unchanged, and neither a bundler nor a compiler of the
 * app has to find a file for it. test/unit/board/script.spec.ts type-checks it as JavaScript.
 */
export const SCRIPT = String.raw`// How the page makes elements. Every text goes through a text node, so a key can bring no markup.

/** Creates an element. Attributes that are undefined are left out; texts become text nodes. */
function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value !== undefined) element.setAttribute(attribute, value);
  }
  element.append(...children);
  return element;
}

const byId = (id) => document.getElementById(id);

/** Changes a text only when it differs, so that screen readers and selections are not disturbed. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Shows characters that are invisible, or change the text direction, by their code. */
const printable = (text) =>
  text.replace(/${UNPRINTABLE.source}| (?= *$)/gu, (char) => '\\u{' + char.codePointAt(0).toString(16) + '}');

const UNITS = [
  [86400000, 'd'],
  [3600000, 'h'],
  [60000, 'min'],
  [1000, 's'],
];

function duration(ms) {
  if (ms < 1000) return Math.max(0, Math.round(ms / 100) / 10).toFixed(1) + ' s';
  const at = UNITS.findIndex(([size]) => ms >= size);
  const [size, unit] = UNITS[at];
  const [smaller, part] = UNITS[at + 1] ?? [];
  const rest = smaller ? Math.floor((ms % size) / smaller) : 0;
  return Math.floor(ms / size) + ' ' + unit + (rest > 0 ? ' ' + rest + ' ' + part : '');
}

const count = (number, one, many) => number + ' ' + (number === 1 ? one : many);

// In the time zone of the reader, and in UTC, which logs use.
const utc = (ms) => new Date(ms).toISOString().slice(0, 19).replace('T', ' ') + ' UTC';
const clockTime = (ms) => new Date(ms).toLocaleTimeString() + ' (' + utc(ms).slice(11) + ')';
const dateTime = (ms) => new Date(ms).toLocaleString();

/** The address of a view, with its search or page. */
const addressOf = (path, params = {}) => {
  const search = new URLSearchParams(Object.entries(params).filter(([, value]) => value)).toString();
  return '#/' + path + (search && '?' + search);
};

function lockLink() {
  return el('a', { class: 'key', dir: 'ltr' });
}

function setLink(link, key) {
  setText(link, printable(key));
  if (link.dataset.key === key) return;
  link.dataset.key = key;
  link.href = addressOf('lock/' + encodeURIComponent(key));
  link.title = printable(key);
}

/** What changes between two messages: lease bars and ages, by the element that shows them. */
const ticking = new Map();

/** Calls update now and twice a second with the age of the state in milliseconds, until the element is removed or reused. */
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

/** Announces a text to screen readers, also when it is the same as before. */
function tell(text) {
  const news = byId('news');
  news.append(el('p', {}, text));
  if (news.childElementCount > 5) news.firstElementChild.remove();
}

// Tables whose rows keep their place when only their contents change.

/**
 * Makes a table. A column has a title and make(cell), which returns a function that shows an item in the cell. The first column
 * names the row. update(items) shows these items; idOf returns the row of an item.
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

const textColumn = (title, textOf, options = {}) => ({
  title,
  ...options,
  make: (cell) => {
    const text = el('span', { class: options.code ? 'code' : undefined, dir: 'auto' });
    cell.append(text);
    return (item) => setText(text, printable(textOf(item)));
  },
});

/** A column of times in the time zone of the reader, followed by UTC; msOf may return null. */
const timeColumn = (title, msOf) => ({
  title,
  number: true,
  make: (cell) => {
    const [local, other] = [el('time'), el('small')];
    cell.append(el('span', {}, local, other));
    return (item) => {
      const ms = msOf(item);
      setText(local, ms === null ? '–' : dateTime(ms));
      setText(other, ms === null ? '' : utc(ms));
      if (ms !== null) local.dateTime = new Date(ms).toISOString();
    };
  },
});

/** A column of links to locks; without a key, it has no link. */
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

/** A column of durations that keep growing; msOf may return null. */
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

/** A column of remaining times, then the text over; with a bar if its full length is known. */
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

/** An address relative to this script: it works under any prefix, and behind any proxy. */
const urlOf = (path, query = {}) => {
  const url = new URL(path, import.meta.url);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url;
};

const TRY_AGAIN_MS = 2000;

/** A short delay of a busy machine is not reported. */
const MIN_SILENCE_MS = 3000;

const stream = { source: null, topic: '', timer: 0, state: null, cameAt: 0, heardAt: 0, isBroken: false, error: null, about: {}, onState: () => {} };

/** Subscribes to the topic that the query names. Keeps the current subscription if the topic is the same. */
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
  // A browser has six connections to a host: a hidden tab leaves them to the others.
  if (document.hidden) return;
  const source = (stream.source = new EventSource(stream.topic));
  stream.heardAt = performance.now();
  for (const name of ['board', 'state', 'failed', 'alive']) {
    source.addEventListener(name, () => (stream.heardAt = performance.now()));
  }
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
    // A browser does not retry after an answer that is not a stream, such as one of a proxy.
    if (source.readyState === EventSource.CLOSED) stream.timer = setTimeout(connect, TRY_AGAIN_MS);
  });
}

document.addEventListener('visibilitychange', connect);

/** The app sends a message once per refresh: after two without one, it has stopped, or the connection is cut. */
setInterval(() => {
  const silentMs = performance.now() - stream.heardAt;
  if (document.hidden || silentMs < Math.max(2 * (stream.about.refreshMs ?? 0), MIN_SILENCE_MS)) return;
  stream.isBroken = true;
  showTrouble();
  connect();
}, 250);

/** Shows what is wrong, and how old the data of the page is. */
function showTrouble() {
  const { isBroken, error, state } = stream;
  byId('banner').hidden = !isBroken && !error;
  const since = state ? ' This page shows what was known at ' + clockTime(state.receivedAt) + '.' : '';
  if (isBroken) {
    setText(byId('banner-title'), 'The app does not answer.');
    setText(byId('banner-text'), 'The page tries to connect again. If you have to log in, reload the page.' + since);
  } else if (error) {
    setText(byId('banner-title'), error.isAway ? 'Redis cannot be reached.' : 'The data cannot be read.');
    setText(byId('banner-text'), printable(error.error) + since);
  }
}

// What a reader can do.

/** A button for an action, which asks first. question() gives its texts, its path and its body; onDone gets a sentence, and whether it is bad. */
function actionButton(label, question, onDone) {
  const button = el('button', { type: 'button', class: 'danger' }, label + '…');
  button.addEventListener('click', async () => {
    const { title, key, text, path, body, done, not } = question();
    const isWanted = await confirmed(title, [printable(key), printable(text)], label);
    button.focus();
    if (!isWanted) return;
    button.disabled = true;
    const { error, answer } = await post(path, body);
    button.disabled = false;
    const outcome = error === undefined ? done(answer) : not + ': ' + printable(error);
    onDone(outcome, error !== undefined);
    tell(outcome);
  });
  return button;
}

const releaseButton = (seen, onDone) =>
  actionButton('Force release', () => {
    const { key, token, holders } = seen();
    const who = holders.map((one) => one.instance + ' ' + workOf(one) + ' with the token ' + one.token).join(', ');
    const text = (who ? 'Held by ' + who : 'It is not held') + '. All its holders are notified that they lost it, but their work may still be running. The next caller in the queue gets the lock.';
    const done = ({ wasHeld }) => (wasHeld ? 'Released. Its holders are notified.' : 'It was no longer held.');
    return { title: 'Take this lock away?', key, text, path: 'force-release', body: { key, token }, done, not: 'Not released' };
  }, onDone);

const runButton = (job, onDone) =>
  actionButton('Run now', () => {
    const { name, key } = job();
    const text = name + ' runs on the instance that serves this page, under its lock. It does not use up a fire.';
    const done = ({ isRunning }) => name + (isRunning ? ' runs.' : ' has run.');
    return { title: 'Run this job now?', key, text, path: 'run-now', body: { name, key }, done, not: name + ' did not run' };
  }, onDone);

async function post(path, content) {
  try {
    const headers = { 'content-type': 'application/json', 'x-lock-board': path };
    const answer = await fetch(urlOf(path), { method: 'POST', headers, body: JSON.stringify(content) });
    const body = await answer.json();
    return answer.ok ? { answer: body } : { error: String(body.error ?? body.message ?? answer.status) };
  } catch (error) {
    return { error: 'the app did not answer (' + error.message + ').' };
  }
}

/** Asks for confirmation; resolves to the answer. The first button has the focus, and Escape means no. */
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

/** The longest lease of each hold that the page has seen, by attempt: the full length of its bar. The most recent are last. */
const fullLeases = new Map();

/** The maximum that the list of all locks and the view of one lock can show. */
const MAX_FULL_LEASES = 11000;

function fullLease({ attempt, remainingMs }) {
  const full = Math.max(remainingMs, fullLeases.get(attempt) ?? 0);
  fullLeases.delete(attempt);
  fullLeases.set(attempt, full);
  if (fullLeases.size > MAX_FULL_LEASES) fullLeases.delete(fullLeases.keys().next().value);
  return full;
}

const workOf = ({ where, note }) => [where, note].filter(Boolean).join(': ') || '–';

const ownerOf = ({ owner }) => owner || '–';
const modeOf = ({ permits }, { mode, take }) => mode + (permits ? ', ' + take + ' of ' + permits.allowed + ' permits' : '');

const SORTS = [
  ['', 'key'], ['-key', 'key, the last first'], ['held', 'held for longest'], ['-held', 'held for shortest'],
  ['lease', 'least lease left'], ['waiting', 'most calls wait'],
];
const JOB_SORTS = [
  ['', 'jobs of this app first'], ['name', 'name'], ['-name', 'name, the last first'], ['fire', 'latest fire'],
  ['next', 'soonest fire'], ['ran', 'longest run'], ['outcome', 'failed and lost first'],
];
const MODES = [['', 'any'], ['write', 'write'], ['read', 'read'], ['waited', 'calls wait'], ['free', 'free'], ['unknown', 'unreadable']];
const EVENTS = [['', 'any'], ...['acquired', 'waited', 'released', 'lost', 'forced', 'skipped', 'failed', 'dropped'].map((one) => [one, one])];

/** What a list can be searched by: the label, and the choices, if any. */
const FILTERS = {
  q: ['Show keys with'],
  holder: ['Owner, method or note'],
  instance: ['Instance'],
  mode: ['Mode', MODES],
  event: ['Event', EVENTS],
  sort: ['Sort by', SORTS],
};

/** How long the search waits for the next letter. */
const TYPING_MS = 300;

/** The fields of a search, which is a part of the address. */
function searchBar(names, params) {
  let timer;
  const fields = names.map((name) => {
    const [label, all] = FILTERS[name];
    const choices = shown.path === 'jobs' && all === SORTS ? JOB_SORTS : all;
    const field = choices
      ? el('select', { id: 'filter-' + name }, ...choices.map(([value, text]) => el('option', { value }, text)))
      : el('input', { type: 'search', id: 'filter-' + name, autocomplete: 'off', spellcheck: 'false', maxlength: '512' });
    field.value = params[name] ?? '';
    const search = () => showSearch(Object.fromEntries(fields.map(([one, { value }]) => [one, value])));
    field.addEventListener(choices ? 'change' : 'input', () => {
      clearTimeout(timer);
      timer = setTimeout(search, choices ? 0 : TYPING_MS);
    });
    return [name, field, el('span', {}, el('label', { for: 'filter-' + name }, label), field)];
  });
  return el('div', { class: 'tools', role: 'search' }, ...fields.map(([, , element]) => element));
}

/** The links to the next page of a list, and to its first one. place is the parameter that names a page. */
function pager(place, texts) {
  const links = texts.map((text) => el('a', { hidden: '' }, text));
  const update = (next) => {
    const { path, params } = shown;
    const { [place]: at, ...first } = params;
    links[0].hidden = !at;
    links[0].href = addressOf(path, first);
    links[1].hidden = !next;
    links[1].href = addressOf(path, { ...first, [place]: next });
  };
  return { element: el('p', { class: 'tools' }, ...links), update };
}

const lockPager = () => pager('after', ['First page', 'Next page']);
const historyPager = () => pager('before', ['Newest entries', 'Older entries']);

/**
 * A view with a heading, and the sentence empty instead of its table when that is empty. about returns a sentence on what is shown.
 * Both sentences depend on the state; until it has arrived, the view shows neither.
 */
function listView({ title, table, itemsOf, about = () => '', empty, filters = [], pages, nextOf, notice }) {
  const summary = el('p', { class: 'soft', hidden: '' });
  const nothing = el('p', { class: 'notice', hidden: '' });
  const heading = el('h2', { tabindex: '-1' }, title);
  const search = filters.length > 0 ? [searchBar(filters, shown.params)] : [];
  return {
    element: el('section', {}, heading, summary, ...search, ...(notice ? [notice] : []), table.element, nothing, ...(pages ? [pages.element] : [])),
    update: (state) => {
      const items = itemsOf(state);
      const isSearch = filters.some((name) => name !== 'sort' && shown.params[name]);
      table.update(items);
      setText(nothing, isSearch ? 'Nothing matches the search.' : empty(state));
      nothing.hidden = items.length > 0 || nothing.textContent === '';
      setText(summary, about(state));
      summary.hidden = summary.textContent === '';
      pages?.update(nextOf(state));
    },
  };
}

/** The rows of one lock: one for each holder, and the number of hidden ones. */
function holdersOf(lock) {
  const { holders, holderCount } = lock;
  const more = holderCount - holders.length;
  const shown = holderCount > 0 ? holders : [null];
  return [...shown.map((holder) => ({ holder })), ...(more > 0 ? [{ more }] : [])].map((row, at) => ({ lock, at, ...row }));
}

const shownOf = ({ locks, total }) => (locks.length < total ? locks.length + ' of ' + total + ' locks are on this page.' : '');

function heldView() {
  const holderOf = ({ lock, holder, more }) => {
    if (more) return 'and ' + count(more, 'more holder', 'more holders');
    return holder ? holder.instance : lock.problem || 'none; it is free for the next caller';
  };
  const columns = [
    keyColumn('Lock', ({ lock }) => lock.key),
    marking(textColumn('Holder', holderOf), ({ holder }) => holder?.attempt),
    textColumn('Method', ({ holder }) => (holder ? workOf(holder) : '–')),
    textColumn('Owner', ({ holder }) => (holder ? ownerOf(holder) : '–')),
    textColumn('Mode', ({ lock, holder }) => (holder ? modeOf(lock, holder) : lock.mode)),
    ageColumn('Held for', ({ holder }) => holder?.heldMs ?? null),
    leftColumn('Lease left', ({ holder }) => holder?.remainingMs ?? null, 'over', ({ holder }) => holder && fullLease(holder)),
    textColumn('Token', ({ holder }) => holder?.token ?? '–', { number: true, code: true }),
    textColumn('Waiting', ({ lock, at }) => (at === 0 ? String(lock.waiters) : ''), { number: true }),
  ];
  return listView({
    title: 'Held locks',
    table: makeTable('Held locks', columns, ({ lock, at }) => lock.key + '\n' + at),
    itemsOf: ({ locks }) => locks.flatMap(holdersOf),
    about: shownOf,
    empty: () => 'No lock is held at the moment. As soon as a method with @Locked runs, its lock is shown here.',
    filters: ['q', 'holder', 'instance', 'mode', 'sort'],
    pages: lockPager(),
    nextOf: ({ next }) => next,
  });
}

/** The rows of the waiters of one lock, followed by the number of hidden ones. */
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
    : count(waiters, 'call waits without its', 'calls wait without their') + ' own place in the queue: ' +
      'calls that are not fair, and calls in a quorum.';

/** What the number of waiting calls covers: Redis has one place for them. */
const COUNTED = ' (calls of one process that hand a lock to each other count as one)';

/** All that waits, the longest first. */
function waitsView() {
  const columns = [
    keyColumn('Lock', ({ lock }) => lock.key),
    ageColumn('Waits for', ({ waiter }) => waiter?.waitedMs ?? null),
    textColumn('Who waits', ({ waiter, more }) => (waiter ? waiter.instance : 'and ' + more + ' more')),
    textColumn('Method', ({ waiter }) => (waiter ? workOf(waiter) : '–')),
    textColumn('Owner', ({ waiter }) => (waiter ? ownerOf(waiter) : '–')),
    textColumn('Place', ({ waiter }) => (waiter ? String(waiter.place) : '–'), { number: true }),
    leftColumn('Gives up in', ({ waiter }) => waiter?.leftMs ?? null, 'overdue'),
    textColumn('Held by', ({ lock: { holders } }) => (holders[0] ? callerText(holders[0]) : 'none')),
  ];
  return listView({
    title: 'What waits longest',
    table: makeTable('What waits longest', columns, ({ lock, waiter }) => lock.key + '\n' + (waiter?.attempt ?? '')),
    itemsOf: ({ locks }) => locks.flatMap(waitersOf).sort((a, b) => b.waitedMs - a.waitedMs),
    about: (state) =>
      [shownOf(state), withoutPlace(sumOf(state.locks, ({ waiters, queueCount }) => Math.max(0, waiters - queueCount)))].join(' ').trim(),
    empty: () => 'No call waits in the queue of a lock. Callers that are not fair, or that wait in a quorum, have no place in a queue.',
    filters: ['q', 'holder', 'instance'],
    pages: lockPager(),
    nextOf: ({ next }) => next,
  });
}

function instancesView() {
  const columns = [
    textColumn('Instance', ({ instance }) => instance),
    textColumn('Holds', ({ holds }) => String(holds), { number: true }),
    textColumn('Waits', ({ waits }) => String(waits), { number: true }),
    ageColumn('Longest hold', ({ holds, heldMs }) => (holds > 0 ? heldMs : null)),
    ageColumn('Longest wait', ({ waits, waitedMs }) => (waits > 0 ? waitedMs : null)),
    linksColumn('Locks', ({ keys }) => keys, ({ keys, keyCount }) => keyCount - keys.length),
  ];
  return listView({
    title: 'Instances',
    table: makeTable('Instances', columns, ({ instance }) => instance),
    itemsOf: ({ instances }) => instances,
    empty: () => 'No instance holds a lock or waits for one at the moment.',
    filters: ['q', 'holder', 'instance'],
  });
}

const linksColumn = (title, keysOf, moreOf) => ({
  title,
  make: (cell) => {
    let before = '';
    return (item) => {
      const [keys, more] = [keysOf(item), moreOf(item)];
      if (before === keys.join('\n') + more) return;
      before = keys.join('\n') + more;
      const links = keys.map((key) => el('div', {}, linkTo(key)));
      cell.replaceChildren(...links, more > 0 ? 'and ' + more + ' more' : '');
    };
  },
});

function linkTo(key) {
  const link = lockLink();
  setLink(link, key);
  return link;
}

const callerText = (one) =>
  printable([one.instance, workOf(one) === '–' ? '' : workOf(one), one.owner && '(owner ' + one.owner + ')'].filter(Boolean).join(' '));

function age(ms) {
  const text = el('span');
  const beganAt = stream.cameAt - ms;
  live(text, () => setText(text, duration(performance.now() - beganAt)));
  return text;
}

/** A lock in the tree: its holders, below them its waiters, and below those what they block in turn. */
function blockedLock({ key, isElsewhere, holders, waiters, more }) {
  if (isElsewhere) return el('li', {}, linkTo(key), ' (see its other place in this tree)');
  const who = holders.flatMap((one, at) => [at > 0 ? ', ' : ' held by ', callerText(one), ' for ', age(one.heldMs)]);
  const below = waiters.map((one) => {
    const next = one.holdsUp.length > 0 ? ['. Its owner or instance holds:', el('ul', {}, ...one.holdsUp.map(blockedLock))] : [];
    return el('li', {}, callerText(one), ' waits for ', age(one.waitedMs), ...next);
  });
  const rest = more > 0 ? [el('li', {}, 'and ' + more + ' more holders and waiters')] : [];
  return el('li', {}, linkTo(key), ...(who.length > 0 ? who : [' is not held now']), el('ul', {}, ...below, ...rest));
}

function blockingView() {
  const tree = el('ul', { class: 'tree' });
  const nothing = el('p', { class: 'notice', hidden: '' });
  const about = el(
    'p',
    { class: 'soft' },
    'Below each lock: who waits for it, and what the owner of that call or, without an owner, its instance holds of what others wait for. ' +
      'Other calls of an instance may hold it.',
  );
  let before = '';
  const update = ({ roots }) => {
    // Rebuilt only when it differs, so that a link keeps the focus.
    const now = JSON.stringify(roots, (name, value) => (name.endsWith('Ms') ? 0 : value));
    if (now !== before) tree.replaceChildren(...roots.map(blockedLock));
    before = now;
    nothing.hidden = roots.length > 0;
    setText(nothing, shown.params.q || shown.params.holder || shown.params.instance ? 'Nothing matches the search.' : 'No call waits for a lock.');
  };
  const search = searchBar(['q', 'holder', 'instance'], shown.params);
  return { element: el('section', {}, el('h2', { tabindex: '-1' }, 'Who blocks whom'), about, search, tree, nothing), update };
}

// The views of what has happened.

function jobsView() {
  const lastOf = (show) => ({ last }) => (last ? show(last) : '–');
  const columns = [
    textColumn('Job', ({ name }) => name),
    keyColumn('Lock', ({ key }) => key),
    timeColumn('Last fire', ({ last }) => last && last.fire),
    textColumn('Ran on', lastOf(({ instance }) => instance)),
    textColumn('Outcome', ({ last, problem }) => problem ?? (last ? last.outcome : '–')),
    textColumn('Took', lastOf(({ ranMs, outcome }) => duration(ranMs) + (outcome === 'running' ? ' so far' : ''))),
    timeColumn('Next fire', ({ next }) => next),
    leftColumn('Due in', ({ nextInMs }) => nextInMs, 'now'),
  ];
  const outcome = el('p', { class: 'notice', hidden: '' });
  columns.push(runColumn(showOutcome(outcome)));
  return listView({
    title: 'Jobs',
    notice: outcome,
    table: makeTable('Jobs', columns, ({ key, name }) => name + ' ' + key),
    itemsOf: ({ jobs }) => jobs,
    about: ({ jobs, hasMore }) =>
      [
        hasMore ? 'There are more than the ' + jobs.length + ' jobs that are shown.' : '',
        jobs.some(({ isOwn }) => !isOwn) ? 'The next fires of other apps are not known here.' : '',
      ].join(' ').trim(),
    filters: ['q', 'instance', 'sort'],
    empty: () =>
      'This app has no job that is locked with oncePer, and no run of one is known. Put @Locked with oncePer on a scheduled method to see its runs here.',
  });
}

const runColumn = (onDone) => ({
  title: 'By hand',
  make: (cell) => {
    let job;
    const [button, none] = [runButton(() => job, onDone), el('span', {}, '–')];
    cell.append(button, none);
    return (item) => {
      job = item;
      button.hidden = !(item.isOwn && stream.about.canRunNow);
      none.hidden = !button.hidden;
    };
  },
});

function lossesView() {
  const columns = [
    keyColumn('Lock', ({ key }) => key),
    timeColumn('Lost at', ({ at }) => at),
    textColumn('Reason', ({ reason }) => reason),
    textColumn('Instance', ({ instance }) => instance),
    textColumn('Method', workOf),
    textColumn('Mode', ({ mode }) => mode),
    textColumn('Held for', ({ ms }) => (ms === null ? '–' : duration(ms)), { number: true }),
    textColumn('Token', ({ token }) => token || '–', { number: true, code: true }),
  ];
  return listView({
    title: 'Losses',
    table: makeTable('Losses', columns, ({ id, key }) => id + key),
    itemsOf: ({ history }) => history.entries,
    about: ({ history, ofInstance }) =>
      (ofInstance
        ? 'The losses of the instance ' + printable(ofInstance) + ' only, since it started. With the option history: true of RedisLockModule, those of all instances.'
        : 'The losses of all instances. ' + searchedText(history)) +
      (history.entries.length < history.limit ? '' : ' There may be more than the ' + history.limit + ' that are shown.'),
    empty: ({ ofInstance }) =>
      ofInstance
        ? 'This instance has lost no lock since it started. The losses of other instances are not known here.'
        : 'The history has no loss.',
    filters: ['q', 'holder', 'instance'],
    pages: historyPager(),
    nextOf: ({ history }) => history.older,
  });
}

// What has happened to locks: a part of the view of one lock, and a view of all.

const NO_HISTORY = 'This app keeps no history of its locks: the option history: true of RedisLockModule turns it on.';

const searchedText = (history) =>
  history?.searched && history.older ? 'At most ' + history.searched + ' entries are searched at a time: continue with the older entries.' : '';

const timeOf = ({ event, ms }) =>
  ms === null ? '–' : (event === 'acquired' || event === 'failed' ? 'waited ' : 'held ') + duration(ms);

const CAUSES = {
  forced: ({ by }) => (by ? 'by ' + by : 'by a user without a name'),
  waited: ({ reason }) => (reason ? 'held by ' + reason : '–'),
  dropped: ({ count: entries }) => count(entries ?? 0, 'entry', 'entries') + ' could not be written',
};
const causeOf = (entry) => CAUSES[entry.event]?.(entry) ?? (entry.reason || '–');

const TIME_COLUMN = timeColumn('Time', ({ at }) => at);
const ENTRY_COLUMNS = [
  textColumn('Event', ({ event }) => event),
  textColumn('Instance', ({ instance }) => instance),
  textColumn('Method', workOf),
  textColumn('How long', timeOf, { number: true }),
  textColumn('Reason', causeOf),
  textColumn('Token', ({ token }) => token || '–', { number: true, code: true }),
];

function historyPart() {
  const table = makeTable('History, the newest first', [TIME_COLUMN, ...ENTRY_COLUMNS], ({ id }) => id);
  const notice = el('p', { class: 'notice', hidden: '' });
  const pages = historyPager();
  const update = (history) => {
    const entries = history?.entries ?? [];
    table.update(entries);
    setText(notice, entries.length > 0 ? '' : history ? 'The history has no entries of this lock.' : NO_HISTORY);
    notice.hidden = notice.textContent === '';
    pages.update(history?.older);
  };
  return { elements: [el('h3', {}, 'History'), table.element, notice, pages.element], update };
}

function historyView() {
  const columns = [TIME_COLUMN, keyColumn('Lock', ({ key }) => key), ...ENTRY_COLUMNS];
  return listView({
    title: 'History',
    table: makeTable('History, the newest first', columns, ({ id }) => id),
    itemsOf: ({ history }) => history?.entries ?? [],
    about: ({ history }) => searchedText(history),
    empty: ({ history }) => (history ? 'The history has no entries yet.' : NO_HISTORY),
    filters: ['q', 'holder', 'instance', 'event'],
    pages: historyPager(),
    nextOf: ({ history }) => history?.older,
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
  const noHolder = el('p', { class: 'notice', hidden: '' }, 'This lock is not held now.');
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
    noHolder,
    el('h3', {}, 'Queue'),
    queue.element,
    noQueue,
    ...past.elements,
  );
  let [before, seen] = [undefined, undefined];
  const update = ({ lock, history }) => {
    seen = lock;
    showFacts(facts, lock);
    if (stream.about.canForceRelease && !tools.hasChildNodes()) tools.append(releaseButton(() => seen, showOutcome(notice)));
    holders.update(lock.holders.map((holder) => ({ ...holder, lock })));
    noHolder.hidden = lock.holders.length > 0;
    queue.update(lock.queue);
    noQueue.hidden = lock.queue.length > 0 && lock.waiters <= lock.queueCount;
    const others = lock.waiters - lock.queueCount;
    setText(noQueue, others > 0 ? withoutPlace(others) : 'No call waits.');
    past.update(history);
    const now = lock.holders.map(({ instance }) => instance).join(', ');
    if (before !== undefined && before !== now) tell(now ? 'Now held by ' + printable(now) + '.' : 'It is not held now.');
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
    ['Waiting', lock.waiters + (lock.waiters > 0 ? COUNTED : '') + shown(lock.queueCount, lock.queue.length)],
    ['Last token', lock.token === '0' ? 'none is remembered' : lock.token],
  ];
  if (!list.hasChildNodes()) list.append(...facts.flatMap(([name]) => [el('dt', {}, name), el('dd')]));
  const values = list.querySelectorAll('dd');
  facts.forEach(([, value], at) => setText(values[at], String(value)));
}

const HOLDER_COLUMNS = [
  textColumn('Holder', ({ instance }) => instance),
  textColumn('Method', workOf),
  textColumn('Owner', ownerOf),
  textColumn('Mode', (holder) => modeOf(holder.lock, holder)),
  timeColumn('Since', ({ since }) => since),
  ageColumn('Held for', ({ heldMs }) => heldMs),
  leftColumn('Lease left', ({ remainingMs }) => remainingMs, 'over', fullLease),
  textColumn('Token', ({ token }) => (token === '0' ? 'released; kept for holdAtLeastMs' : token), { number: true, code: true }),
];

const QUEUE_COLUMNS = [
  textColumn('Place', ({ place }) => String(place), { number: true }),
  textColumn('Who waits', ({ instance }) => instance),
  textColumn('Method', workOf),
  textColumn('Owner', ownerOf),
  textColumn('Mode', ({ mode }) => mode),
  ageColumn('Waits for', ({ waitedMs }) => waitedMs),
  leftColumn('Gives up in', ({ leftMs }) => leftMs, 'overdue'),
];

// Which view is shown. Each has an address, after the # of the page, with its search behind a question mark.

const VIEWS = {
  '': { title: 'Held locks', make: heldView, query: { view: 'locks' } },
  waits: { title: 'What waits longest', make: waitsView, query: { view: 'locks', mode: 'waited', sort: 'waited' } },
  blocking: { title: 'Who blocks whom', make: blockingView, query: { view: 'blocking' } },
  instances: { title: 'Instances', make: instancesView, query: { view: 'instances' } },
  jobs: { title: 'Jobs', make: jobsView, query: { view: 'jobs' } },
  losses: { title: 'Losses', make: lossesView, query: { view: 'losses' } },
  history: { title: 'History', make: historyView, query: { view: 'history' } },
};

/** The current view: its path and search in the address, and its query to the app. */
let shown = { path: '', params: {}, query: {} };

/** The view of an address; the held locks for any other address. */
function viewOf(hash) {
  const [, path, search] = /^#?\/?([^?]*)\??(.*)$/s.exec(hash);
  const params = Object.fromEntries(new URLSearchParams(search));
  const [name, ...rest] = path.split('/');
  const known = Object.hasOwn(VIEWS, name) ? name : '';
  if (name !== 'lock' || rest.length === 0) return { ...VIEWS[known], path: known, params };
  try {
    const key = decodeURIComponent(rest.join('/'));
    return { title: printable(key), make: () => lockView(key), query: { view: 'lock', key }, path, params };
  } catch {
    return { ...VIEWS[''], path: '', params: {} };
  }
}

function showSummary(state) {
  const at = 'Updated at ' + clockTime(state.receivedAt) + '.';
  if (state.held === undefined) return setText(byId('summary'), at);
  const more = state.hasMore
    ? ' There are more than the ' + state.limit + ' locks that were searched: search for a part of the key.'
    : '';
  const text = count(state.held, 'lock is', 'locks are') + ' held, ' + count(state.waiting, 'call waits', 'calls wait') + (state.waiting > 0 ? COUNTED : '') + '.';
  setText(byId('summary'), (state.hasMore ? 'At least ' : '') + text + more + ' ' + at);
}

function ask() {
  setText(byId('summary'), 'Asking Redis…');
  const wanted = Object.entries({ ...shown.query, ...shown.params }).filter(([, value]) => value !== '');
  listen(Object.fromEntries(wanted), (state) => {
    shown.update(state);
    showSummary(state);
  });
}

/** Changes the search of the view, which returns to its first page. */
function showSearch(params) {
  shown.params = Object.fromEntries(Object.entries(params).filter(([, value]) => value !== ''));
  history.replaceState(null, '', addressOf(shown.path, shown.params));
  ask();
}

let isFirst = true;

function showView() {
  const { title, make, query, path, params } = viewOf(location.hash);
  shown = { path, params, query };
  const { element, update } = make();
  shown.update = update;
  byId('main').replaceChildren(element);
  document.title = title + ' · Locks';
  for (const link of byId('views').querySelectorAll('a')) {
    if (link.hash.replace('#/', '') === path) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  ask();
  // After following a link, the reader continues at the new heading.
  if (!isFirst) element.querySelector('h2').focus();
  isFirst = false;
}

byId('skip').addEventListener('click', (event) => {
  event.preventDefault();
  byId('main').focus();
});
addEventListener('hashchange', showView);
showView();
`;
