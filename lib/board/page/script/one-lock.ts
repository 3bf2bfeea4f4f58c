/** The view of one lock. */
export const ONE_LOCK = String.raw`
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
`;
