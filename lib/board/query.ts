import { isHistoryEvent, type LockHistoryEntry } from '../core/history/history-entry.js';
import { type LockHolder, type LockState, type LockWaiter, readAt } from '../core/store/lock-state.js';

export const instanceOf = ({ host, pid }: { readonly host: string; readonly pid: number }): string => `${host}:${pid}`;

// The queries of a page.

export const SORTS = {
  key: () => 0,
  held: ({ holders }) => earliest(holders),
  lease: (state) => Math.min(NEVER, ...state.holders.map(({ remainingMs }) => readAt(state) + remainingMs)),
  waiting: ({ waiters }) => -waiters,
  waited: ({ queue }) => earliest(queue),
} satisfies Record<string, (state: LockState) => number>;

/** A job as a page shows it: `ranMs` is 0 without a run. */
interface SortedJob {
  readonly name: string;
  readonly next: number | null;
  readonly last: { readonly fire: number; readonly ranMs: number; readonly outcome: string } | null;
}

/** The outcomes of runs, in the order of their urgency. */
const OUTCOMES = ['failed', 'lost', 'running', 'done'];

/** The sort order of the jobs: the latest fire, the soonest one, the longest run or the failures first. */
export const JOB_SORTS = {
  name: ({ name }) => name,
  fire: ({ last }) => (last ? -last.fire : NEVER),
  next: ({ next }) => next ?? NEVER,
  ran: ({ last }) => (last ? -last.ranMs : NEVER),
  outcome: ({ last }) => (last ? OUTCOMES.indexOf(last.outcome) : NEVER),
} satisfies Record<string, (job: SortedJob) => string | number>;

const NEVER = Number.MAX_SAFE_INTEGER;
const earliest = (callers: readonly { readonly since: Date }[]): number =>
  Math.min(NEVER, ...callers.map(({ since }) => since.getTime()));

/** A place in a sorted list of locks: behind the lock with this rank and key. */
export type Place = readonly [rank: number, key: string];

const VIEWS = ['locks', 'instances', 'blocking', 'lock', 'history', 'jobs', 'losses'] as const;
const MODES = ['', 'read', 'write', 'free', 'unknown', 'waited'];
const MAX_TEXT = 1_024;
/** A place has a key and, before it, up to 18 characters. */
const MAX_PLACE = MAX_TEXT + 18;

/** A query of a page: the checked parts of its address. */
export type BoardQuery = Readonly<Exclude<ReturnType<typeof readQuery>, string>>;

/** Parses a query; returns a text that describes the error if it is invalid. */
export function readQuery(given: Readonly<Record<string, unknown>>) {
  const text = (name: string): string => (typeof given[name] === 'string' ? given[name] : '');
  for (const name of ['q', 'key', 'holder', 'instance', 'mode', 'event', 'sort', 'after', 'before']) {
    const most = name === 'after' ? MAX_PLACE : MAX_TEXT;
    const isText = given[name] === undefined || (typeof given[name] === 'string' && given[name].length <= most);
    if (!isText) return `Expected \`${name}\` to be one text of at most ${most} characters.`;
  }
  const view = VIEWS.find((one) => one === given['view']);
  if (!view) return `There is no such view: expected one of ${VIEWS.join(', ')}.`;
  if (view === 'lock' && given['key'] === undefined) return 'The view of a lock needs its `key`.';
  const [sort, event, mode] = [text('sort').replace(/^-/, ''), text('event'), text('mode')];
  const sorts = view === 'jobs' ? JOB_SORTS : SORTS;
  if (sort !== '' && !Object.hasOwn(sorts, sort))
    return `Expected \`sort\` to be one of ${Object.keys(sorts).join(', ')}, got \`${sort}\`.`;
  if (event !== '' && !isHistoryEvent(event)) return `There is no event \`${event}\`.`;
  if (!MODES.includes(mode)) return `Expected \`mode\` to be one of ${MODES.slice(1).join(', ')}, got \`${mode}\`.`;
  const [, rank, afterKey] = /^(-?\d{1,16}) (.*)$/su.exec(text('after')) ?? [];
  const [, at, id] = /^(\d{1,15}) (.*)$/su.exec(text('before')) ?? [];
  if ((text('after') !== '' && rank === undefined) || (text('before') !== '' && at === undefined)) {
    return 'Expected `after` and `before` to be those of a link on the page.';
  }
  const after: Place | null = rank === undefined ? null : [Number(rank), afterKey!];
  return {
    view,
    key: text('key'),
    q: text('q'),
    // How the lock is held; `waited`: at least one caller waits for it.
    mode,
    event,
    // A part of the owner, the method or the note of a holder or waiter, and of its instance.
    holder: text('holder').toLowerCase(),
    instance: text('instance').toLowerCase(),
    // A name of `SORTS`, or of `JOB_SORTS`; empty: jobs of this app first.
    sort,
    isReversed: text('sort').startsWith('-'),
    after,
    before: at === undefined ? null : { at: Number(at), id: id! },
  };
}

type Filters = Pick<BoardQuery, 'holder' | 'instance'>;

export const isCaller = ({ holder, instance }: Filters, caller: LockHolder | LockWaiter): boolean =>
  `${caller.owner}\n${caller.where}\n${caller.note}`.toLowerCase().includes(holder) &&
  instanceOf(caller).toLowerCase().includes(instance);

export function isLock(query: BoardQuery, state: LockState): boolean {
  const { q, mode, holder, instance } = query;
  if (!state.key.includes(q)) return false;
  if (mode === 'waited' ? state.waiters === 0 : mode !== '' && state.mode !== mode) return false;
  return (holder === '' && instance === '') || [...state.holders, ...state.queue].some((one) => isCaller(query, one));
}

export const isEntry = ({ q, holder, instance, event }: BoardQuery, entry: LockHistoryEntry): boolean =>
  entry.key.includes(q) &&
  (event === '' || entry.event === event) &&
  instanceOf(entry).toLowerCase().includes(instance) &&
  `${entry.where ?? ''}\n${entry.note ?? ''}\n${entry.by ?? ''}`.toLowerCase().includes(holder);

/** A caller as sent to a page, with the time that it has held or waited. An owner without a name is left out. */
export const callerView = (caller: LockHolder | LockWaiter, nowMs: number) => {
  const { attempt, where, note, mode, take, since } = caller;
  const owner = caller.owner === attempt ? '' : caller.owner;
  return [
    { attempt, owner, instance: instanceOf(caller), where, note, mode, take },
    Math.max(0, nowMs - since.getTime()),
  ] as const;
};
