/** The connection to the app: one stream of server-sent events at a time, for what the page shows. */
export const STREAM = String.raw`
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
`;
