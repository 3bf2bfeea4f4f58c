import { type FoundBug } from '../found-bug.js';

/** A quorum of masters. */
export const QUORUM: readonly FoundBug[] = [
  {
    name: 'a majority of a quorum is half of it',
    file: 'lib/redis/quorum/votes.ts',
    find: 'Math.floor(nodes.length / 2) + 1',
    replace: 'Math.floor(nodes.length / 2)',
    rules: ['1: a belief is backed', '1: two do not believe'],
    profile: 'quorum',
    seeds: 4,
  },
  {
    name: 'a quorum does not write its token back',
    file: 'lib/redis/quorum/quorum-acquirer.ts',
    find: 'if (round.isWon && (await this.#writeBack(request, round, timeoutMs))) return',
    replace: 'if (round.isWon) return',
    rules: ['nothing is lost in calm', '8: tokens rise', '4: a loss has its reason'],
    profile: 'quorum',
    seeds: 8,
  },
];
