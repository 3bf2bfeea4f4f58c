// Everything that can be measured, by name. A name that ends with "1 ms" polls as fast as its package can, and for ever.
import { readFileSync } from 'node:fs';

export const OURS = 'nestjs-redis-lock';
export const BASELINE = 'by hand';
const FASTEST = ', 1 ms';

const load = {
  [OURS]: () => import('./ours.mjs'),
  [BASELINE]: () => import('./by-hand.mjs'),
};

/** Opens a candidate on a server: `{ acquire, release, close }`, and what else it can. */
export async function openCandidate(name, options) {
  const plain = name.replace(FASTEST, '');
  const retryMs = plain === name ? undefined : 1;
  const { open } = load[plain] ? await load[plain]() : (await import('./peers.mjs')).PEERS[plain];
  return open({ leaseMs: 30_000, ...options, ...(retryMs && { retryMs }) });
}

const PACKAGES = ['ioredis', 'redis', 'redlock', 'redlock4', '@sesamecare-oss/redlock', 'redis-semaphore', 'redlock-universal', 'simple-redis-mutex', 'murlock', '@redis-kit/lock']; // prettier-ignore

/** The versions of the packages that are measured. */
export function versions() {
  const folder = new URL('../node_modules/', import.meta.url);
  const versionOf = (name) => JSON.parse(readFileSync(new URL(`${name}/package.json`, folder), 'utf8')).version;
  const own = JSON.parse(readFileSync(new URL('../../node_modules/ioredis/package.json', import.meta.url), 'utf8'));
  const all = PACKAGES.map((name) => [name, versionOf(name)]);
  return { [`ioredis of ${OURS} and ${BASELINE}`]: own.version, ...Object.fromEntries(all) };
}
