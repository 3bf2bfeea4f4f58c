/** Which view is shown. Each has an address, after the # of the page. */
export const CONTROL = String.raw`
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
