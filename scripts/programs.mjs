// The programs that tests need besides Node. Each is found on this machine, or installed.
import { ensureProgram, onPath } from './install.mjs';

/** Returns the path of a Redis server. */
export const ensureRedisServer = () =>
  ensureProgram({
    find: () => onPath('redis-server', 'valkey-server'),
    apt: 'redis-server',
    brew: 'redis',
    missing:
      'No redis-server or valkey-server on PATH, and none could be installed. Install one (Debian, Ubuntu: ' +
      '`apt-get install redis-server` as root; macOS: `brew install redis`), or set REDIS_URL to a server for tests.',
  });

/** Returns the path of a browser for the tests of the board. */
export const ensureChromium = () =>
  ensureProgram({
    find: () => onPath('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'),
    apt: 'chromium',
    missing:
      'No chromium, chromium-browser or google-chrome on PATH, and none could be installed. Install one (Debian: ' +
      '`apt-get install chromium` as root) for the tests of the board in a browser.',
  });
