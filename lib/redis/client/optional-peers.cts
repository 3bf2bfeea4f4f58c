// The client libraries are optional peers. This file is CommonJS in both builds, because only `require` loads a package at once
// and when it is needed. Each name is written out, so that bundlers and the mocks of test runners find it; inside of `try`,
// bundlers accept that it is missing.

/** The exports of ioredis; null when it is not installed. */
export function loadIoredis(): typeof import('ioredis') | null {
  try {
    return require('ioredis') as typeof import('ioredis');
  } catch (error) {
    return nullIfMissing(error);
  }
}

/** The exports of iovalkey, which was made from ioredis and has the same classes. */
export function loadIovalkey(): typeof import('ioredis') | null {
  try {
    return require('iovalkey') as typeof import('ioredis');
  } catch (error) {
    return nullIfMissing(error);
  }
}

/** A package that is there and broken must not count as missing. */
function nullIfMissing(error: unknown): null {
  if ((error as { readonly code?: unknown } | null)?.code === 'MODULE_NOT_FOUND') return null;
  throw error;
}
