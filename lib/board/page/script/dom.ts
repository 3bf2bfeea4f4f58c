import { UNPRINTABLE } from '../../../core/printable.js';

/** How the page makes elements. Every text goes through a text node, so a key can bring no markup. */
export const DOM = String.raw`
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
`;
