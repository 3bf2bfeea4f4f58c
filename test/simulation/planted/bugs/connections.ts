import { type FoundBug } from '../found-bug.js';

/** Connections and their commands. */
export const CONNECTIONS: readonly FoundBug[] = [
  {
    name: 'scripts that a server has forgotten are not sent again',
    file: 'lib/redis/connection/script-delivery.ts',
    find: 'if (!isNoScript(error)) return false;',
    replace: 'return false;',
    rules: ['nothing fails in calm'],
    profile: 'calm',
    seeds: 3,
  },
];
