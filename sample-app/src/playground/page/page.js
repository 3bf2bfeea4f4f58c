// The page of the playground. It shows each state that the server sends; the buttons post to the path in their `data-post`.

/** Makes an element. All texts become text nodes. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function button(label, path) {
  const made = make('button', {}, label);
  made.dataset.post = path;
  return made;
}

const find = (id) => document.getElementById(id);
const timeOf = (at) => new Date(at).toTimeString().slice(0, 8);

const STATES = { starts: 'starts', runs: 'runs', frozen: 'is frozen', ended: 'has ended' };
const ACTIONS = {
  starts: [],
  runs: [
    ['Freeze', 'freeze'],
    ['Kill', 'kill'],
  ],
  frozen: [
    ['Let it continue', 'thaw'],
    ['Kill', 'kill'],
  ],
  ended: [['Start', 'start']],
};
const SIGNS = { won: '●', skipped: '○', silent: '–' };

function showInstance({ name, state, pid, url, leads }) {
  const about = make('span', {}, ` ${STATES[state]}${pid === null ? '' : `, pid ${pid}`}${leads ? ', leads' : ''} `);
  const board = url === null ? [] : [make('a', { href: `${url}/locks` }, 'its board')];
  const buttons = ACTIONS[state].map(([label, action]) => {
    const made = button(label, `instances/${name}/${action}`);
    made.setAttribute('aria-label', `${label} ${name}`);
    return made;
  });
  return make(
    'li',
    { className: state },
    make('strong', {}, name),
    about,
    ...board,
    make('p', { className: 'buttons' }, ...buttons),
  );
}

function showParts(parts = []) {
  const shown = parts.map(({ kind, text }) => make('span', { className: kind }, `${SIGNS[kind]} ${text}`));
  return make('td', {}, ...shown);
}

function showMoment({ at, title, parts }, names) {
  const cells = names.map((name) => showParts(parts[name]));
  return make('tr', {}, make('th', { scope: 'row' }, `${timeOf(at)} ${title}`), ...cells);
}

/** A button keeps the focus while the list around it is made again. */
function replace(element, children) {
  const focused = document.activeElement?.closest(`#${element.id} [data-post]`)?.dataset.post;
  element.replaceChildren(...children);
  if (focused) element.querySelector(`[data-post="${focused}"]`)?.focus();
}

function show({ instances, isRedisCut, moments }) {
  const names = instances.map(({ name }) => name);
  replace(find('instances'), instances.map(showInstance));
  const redis = find('redis');
  redis.hidden = isRedisCut === null;
  redis.textContent = isRedisCut ? 'Bring Redis back' : 'Cut off Redis';
  redis.dataset.post = `redis/${isRedisCut ? 'mend' : 'cut'}`;
  const heads = ['What', ...names].map((text) => make('th', { scope: 'col' }, text));
  find('columns').replaceChildren(make('tr', {}, ...heads));
  find('moments').replaceChildren(...moments.map((moment) => showMoment(moment, names)));
}

async function post(path) {
  find('problem').textContent = '';
  try {
    const response = await fetch(path, { method: 'POST' });
    if (!response.ok) find('problem').textContent = (await response.json()).message;
  } catch {
    find('problem').textContent = 'The playground does not answer. Has it ended?';
  }
}

document.addEventListener('click', ({ target }) => {
  const path = target.closest?.('[data-post]')?.dataset.post;
  if (path) void post(path);
});

addEventListener('error', ({ message }) => {
  find('problem').textContent = `The script of this page failed: ${message}. Reload the page.`;
});

const events = new EventSource('events');
events.addEventListener('error', () => {
  find('problem').textContent = 'The playground does not answer. Has it ended?';
});
events.addEventListener('open', () => {
  find('problem').textContent = '';
});
events.addEventListener('message', ({ data }) => show(JSON.parse(data)));
