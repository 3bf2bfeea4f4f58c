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
    seeds: 3,
  },
  {
    name: 'a quorum does not write its token back',
    file: 'lib/redis/quorum/quorum-acquirer.ts',
    find: 'if (round.isWon && (await this.#writeBack(request, round, timeoutMs))) return',
    replace: 'if (round.isWon) return',
    rules: ['nothing is lost in calm', '8: tokens rise', '4: a loss has its reason'],
    profile: 'quorum',
    seeds: 9,
  },
  {
    name: 'the token of a quorum is the least of all votes',
    file: 'lib/redis/quorum/acquire-round.ts',
    find: 'agreed ?? Math.max(...minted)',
    replace: 'agreed ?? Math.min(...minted)',
    rules: ['8: tokens rise'],
    profile: 'quorum',
    seeds: 12,
  },
  {
    name: 'one vote renews a lock of a quorum',
    file: 'lib/redis/quorum/quorum-merge.ts',
    find: 'if (renewed.length >= majority) {',
    replace: 'if (renewed.length >= 1) {',
    rules: ['an extension lasts', '1: a belief is backed'],
    profile: 'quorumNetwork',
    seeds: 3,
  },
  {
    name: 'what a quorum does not win is not given back',
    file: 'lib/redis/quorum/quorum-acquirer.ts',
    find: 'for (const node of round.toGiveBack()) this.#giveBackTo(node, request, timeoutMs);',
    replace: '',
    rules: ['10: no hold without an owner'],
    profile: 'quorum',
    seeds: 15,
  },
];
