import { type FoundBug } from '../found-bug.js';

/** Leaders. */
export const LEADERS: readonly FoundBug[] = [
  {
    name: 'a leader believes in its term for as long as it was not told of the end',
    file: 'lib/leader/term.ts',
    find: 'return !this.isOver && this.hold.held;',
    replace: 'return !this.isOver;',
    rules: ['leaders: one at a time'],
    profile: 'leadersProcesses',
    seeds: 6,
  },
  {
    name: 'a leader is not told that it has lost its lock',
    file: 'lib/leader/campaign.ts',
    find: 'hold.onLost((error) => inOwnContext(() => this.#demote(term, error.reason, error)));',
    replace: '',
    rules: ['leaders: the end of a term is told before the next one begins'],
    profile: 'leadersProcesses',
    seeds: 6,
  },
  {
    name: 'a leader that resigned never campaigns again',
    file: 'lib/leader/campaign.ts',
    find: 'await this.#wait(OTHERS_FIRST_MS);',
    replace: 'await this.#wait(Infinity);',
    rules: ['leaders: one is elected'],
    profile: 'leaders',
    seeds: 9,
  },
  {
    name: 'a leader that resigned keeps its lock',
    file: 'lib/leader/campaign.ts',
    find: "if (term.hasWork) hold.lose('shutdown');\n    await giveUp(hold);",
    replace: '',
    rules: ['leaders: one is elected'],
    profile: 'leaders',
    seeds: 6,
  },
];
