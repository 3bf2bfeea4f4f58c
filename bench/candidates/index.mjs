// All candidates, by name. Settings follow the name: "redlock 4, 1 ms" tries again every millisecond, forever.
import { readFileSync } from 'node:fs';

export const OURS = 'nestjs-redis-lock';
export const BASELINE = 'by hand';
/** The baseline again, in a separate process: two equal candidates differ by the noise of a run. */
export const AGAIN = `${BASELINE}, again`;

/** Our commands, sent by the code of the baseline: their cost without the rest of the library. */
export const OUR_COMMANDS = `${BASELINE}, our commands`;

/** No lock: a token in a list, which Redis hands to the next one that waits for it. Nothing can be faster. */
export const TOKEN_IN_LIST = `${BASELINE}, a token in a list`;

/** Ours, with calls that return before their release. */
export const EARLY = `${OURS}, awaitRelease: false`;

/** Ours, with the option `history`. */
export const WITH_HISTORY = `${OURS}, history`;

/** The same on a client of node-redis, in place of ioredis. */
export const onNodeRedis = (name) => `${name}, node-redis`;

export const isOnNodeRedis = (name) => name.endsWith(onNodeRedis(''));

const OWN = {
  [OURS]: () => import('./ours.mjs'),
  [BASELINE]: () => import('./by-hand.mjs'),
};

const SETTINGS = {
  again: {},
  'our commands': { isOurs: true },
  'a token in a list': { isList: true },
  lean: { isLean: true },
  'awaitRelease: false': { awaitRelease: false },
  history: { history: true },
  'node-redis': { library: 'node-redis' },
};

/** Whether a candidate is ours or the baseline. They must not fail; a peer may. */
export const isOwn = (name) => plainName(name) in OWN;

const plainName = (name) => name.split(', ')[0];

function settingOf(text) {
  const retryMs = /^(\d+) ms$/.exec(text)?.[1];
  return retryMs ? { retryMs: Number(retryMs) } : SETTINGS[text];
}

/** Opens a candidate on a server: `{ acquire, release, close }`, and its other functions. */
export async function openCandidate(name, options) {
  const plain = plainName(name);
  const { open } = OWN[plain] ? await OWN[plain]() : (await import('./peers.mjs')).PEERS[plain];
  const settings = name.split(', ').slice(1).map(settingOf);
  return open(Object.assign({ leaseMs: 30_000, ...options }, ...settings));
}

const PACKAGES = ['ioredis', 'redis', 'redlock', 'redlock4', '@sesamecare-oss/redlock', 'redis-semaphore', 'redlock-universal', 'simple-redis-mutex', 'murlock', '@redis-kit/lock']; // prettier-ignore

/** The client libraries of our package and the baseline. */
const CLIENTS = ['ioredis', 'redis'];

/** The versions of the packages that are measured. */
export function versions() {
  const versionIn = (folder, name) =>
    JSON.parse(readFileSync(new URL(`${folder}${name}/package.json`, import.meta.url), 'utf8')).version;
  const own = CLIENTS.map((name) => [`${name} of ${OURS} and ${BASELINE}`, versionIn('../../node_modules/', name)]);
  const peers = PACKAGES.map((name) => [name, versionIn('../node_modules/', name)]);
  return Object.fromEntries([...own, ...peers]);
}
