import { hostname, userInfo } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../core/clock.js';
import { MAX_HISTORY_ENTRIES, NO_FACTS } from '../core/history/history-entry.js';
import { LockError, LockStoreError } from '../core/lock.errors.js';
import { printable } from '../core/printable.js';
import { objectIn } from '../core/read-options.js';
import { messageOf } from '../core/reporter.js';
import { ownHost } from '../core/store/holder-text.js';
import { byStart, type JobOfKey, type LastRun, type LockState, type UnreadableKey } from '../core/store/lock-state.js';
import {
  counted,
  shortDuration,
  errorText,
  eventsTable,
  holdersTable,
  instanceText,
  jsonLine,
  locksTable,
  queueTable,
  shown,
  summaryOf,
  timeText,
  workText,
} from './output/text.js';
import { type Table, type Terminal } from './output/terminal.js';
import { allOf, type Session, within } from './session.js';
import { type Board, EXIT, type ExitCode, UsageError } from './settings.js';

async function listed(
  session: Session,
  prefix: string,
): Promise<{ readonly locks: readonly LockState[]; readonly hasMore: boolean }> {
  const { settings, locks: store } = session;
  const found = await allOf(session, store.list({ prefix, limit: settings.limit + 1 }));
  const locks = found.slice(0, settings.limit).sort((a, b) => (a.key < b.key ? -1 : 1));
  return { locks, hasMore: found.length > settings.limit };
}

export async function ls(session: Session, prefix = ''): Promise<ExitCode> {
  const { settings, terminal } = session;
  const { locks, hasMore } = await listed(session, prefix);
  if (settings.json) terminal.write(jsonLine({ locks, hasMore }));
  else if (locks.length > 0) terminal.table(locksTable(locks));
  else terminal.complain(noLocks(prefix));
  if (hasMore) terminal.complain(`There are more than ${settings.limit} locks: see --limit, or give a prefix.`);
  return locks.length > 0 ? EXIT.ok : EXIT.no;
}

const noLocks = (prefix: string): string =>
  `No lock is held or waited for${prefix === '' ? '' : ` whose key begins with ${shown(prefix)}`}.`;

export async function inspect({ settings, terminal, locks }: Session, key: string): Promise<ExitCode> {
  locks.checkKey(key);
  const state = await within(settings, locks.inspect(key));
  if (settings.json) terminal.write(jsonLine(state));
  else printLock(terminal, state);
  return state.mode === 'free' && state.waiters === 0 ? EXIT.no : EXIT.ok;
}

function printLock(terminal: Terminal, state: LockState): void {
  terminal.line(terminal.styled(shown(state.key), 'bold'));
  terminal.line(`${summaryOf(state)}; last fencing token: ${state.fencingToken || 'none is remembered'}`);
  if (state.holders.length > 0) {
    terminal.line();
    terminal.table(holdersTable(state));
  }
  if (state.queue.length > 0) {
    terminal.line();
    terminal.table(queueTable(state));
  }
}

type Look = Awaited<ReturnType<typeof listed>>;

/** Shows the reads one after the other; `error` when one has failed. */
interface View {
  show(look: Look): void | Promise<void>;
  error(text: string): void;
  end(): void;
}

/** Reads repeatedly until Ctrl-C. Only the first read may fail the command: later, Redis may be away for a while. */
export async function watch(session: Session, prefix = ''): Promise<ExitCode> {
  const { settings, terminal } = session;
  terminal.endsBySignals();
  const first = await listed(session, prefix);
  // A list that Ctrl-C has ended is not complete.
  if (terminal.signal.aborted) return EXIT.ok;
  const view = terminal.canPaint && !settings.json ? screenView(session, prefix) : lineView(session);
  try {
    await view.show(first);
    while (await pause(settings.intervalMs, terminal.signal)) {
      try {
        const look = await listed(session, prefix);
        if (!terminal.signal.aborted) await view.show(look);
      } catch (error) {
        if (!(error instanceof LockError)) throw error;
        if (!terminal.signal.aborted) view.error(errorText(error));
      }
    }
  } finally {
    view.end();
  }
  return EXIT.ok;
}

/** Returns false when the tool must end. */
async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(ms, undefined, { signal });
    return true;
  } catch {
    return false;
  }
}

/** For a terminal: the table, refreshed in place. */
function screenView({ settings, terminal }: Session, prefix: string): View {
  let last: Look = { locks: [], hasMore: false };
  let status = '';
  const paint = (next: string): void => {
    status = next;
    const { locks, hasMore } = last;
    const lines = locks.length > 0 ? terminal.linesOf(locksTable(locks)) : [noLocks(prefix)];
    const more = hasMore ? [`More than ${settings.limit}: see --limit.`] : [];
    terminal.repaint([`${timeText(new Date())}  ${status}`, '', ...lines, ...more]);
  };
  const giveBack = terminal.takeScreen(() => paint(status));
  return {
    show: (look) => {
      last = look;
      paint(`every ${settings.intervalMs} ms; Ctrl-C ends`);
    },
    error: (text) => paint(text),
    end: giveBack,
  };
}

/**
 * For files and other programs: one line per change. If there are more locks than the limit, it follows the first ones to their end,
 * because each read may return others.
 */
function lineView({ settings, terminal, locks: store }: Session): View {
  let before = new Map<string, LockState>();
  let failure = '';
  let isCut = false;
  const say = (change: 'held' | 'changed' | 'gone', lock: LockState): void => {
    const at = new Date();
    if (settings.json) return terminal.write(jsonLine({ at, change, lock }));
    const [holder] = change === 'gone' ? [] : lock.holders;
    const by = holder ? ` by ${instanceText(holder)} ${workText(holder)}` : '';
    const state = change === 'gone' ? '' : `: ${summaryOf(lock)}${by}`;
    terminal.line(`${timeText(at)}  ${change.padEnd(7)}  ${shown(lock.key)}${state}`);
  };
  /** An unreadable lock keeps its last state: a list shows the reason. */
  const again = async (known: LockState): Promise<LockState> =>
    known.problem === undefined ? within(settings, store.inspect(known.key)) : known;
  return {
    show: async ({ locks, hasMore }) => {
      failure = '';
      if (hasMore && !isCut)
        terminal.complain(`There are more than ${settings.limit} locks: see --limit, or give a prefix.`);
      isCut = hasMore;
      const listed = new Map(locks.map((lock) => [lock.key, lock]));
      const now = new Map<string, LockState>();
      for (const known of before.values()) {
        const lock = listed.get(known.key) ?? (hasMore ? await again(known) : undefined);
        if (!lock || (lock.mode === 'free' && lock.waiters === 0)) {
          say('gone', known);
          continue;
        }
        now.set(lock.key, lock);
        if (signOf(known) !== signOf(lock)) say('changed', lock);
      }
      for (const lock of locks) {
        if (before.has(lock.key) || now.size >= settings.limit) continue;
        now.set(lock.key, lock);
        say('held', lock);
      }
      before = now;
    },
    error: (text) => {
      if (text !== failure) terminal.complain(text);
      failure = text;
    },
    end: () => undefined,
  };
}

/** The parts of a lock that count as a change: not its leases. */
const signOf = (state: LockState): string =>
  JSON.stringify([
    state.mode,
    state.waiters,
    state.holders.map(({ attempt }) => attempt).sort(),
    state.queue.map(({ attempt }) => attempt),
  ]);

/** The last events of all locks, or of one. `key` is undefined where it was left out. */
export async function history(session: Session, key?: string): Promise<ExitCode> {
  const { settings, terminal, locks } = session;
  if (key !== undefined) locks.checkKey(key);
  const found = await locks.history.read({ key, limit: settings.limit + 1 }, settings.timeoutMs);
  const entries = found.slice(0, settings.limit);
  const hasMore = found.length > settings.limit;
  if (settings.json) terminal.write(jsonLine({ entries, hasMore }));
  else if (entries.length > 0) terminal.table(eventsTable(entries));
  if (entries.length === 0) terminal.complain(await noEvents(session, key));
  if (hasMore) terminal.complain('There are older events: see --limit.');
  return entries.length > 0 ? EXIT.ok : EXIT.no;
}

const hasHistory = async ({ settings, locks }: Session): Promise<boolean> =>
  (await locks.history.read({ limit: 1 }, settings.timeoutMs)).length > 0;

async function noEvents(session: Session, key: string | undefined): Promise<string> {
  if (key !== undefined && (await hasHistory(session))) return `The history has no event of ${shown(key)}.`;
  return (
    'There is no history under this prefix. The app writes one with the option `history: true` of RedisLockModule, and ' +
    'keeps it for a day after the last event, unless the option says otherwise.'
  );
}

/** The jobs whose keys begin with a prefix, the latest run first. */
export async function jobs(session: Session, prefix = ''): Promise<ExitCode> {
  const { settings, terminal, locks } = session;
  // One more than the limit shows whether there are more.
  const found = await allOf(session, locks.jobs({ prefix, limit: settings.limit + 1 }));
  const shownJobs = found.slice(0, settings.limit).sort(unreadableFirst);
  const hasMore = found.length > settings.limit;
  if (settings.json) terminal.write(jsonLine({ jobs: shownJobs, hasMore }));
  else if (shownJobs.length > 0) terminal.table(jobsTable(shownJobs, Date.now()));
  else terminal.complain(noJobs(prefix));
  if (hasMore) terminal.complain(`There are more than ${settings.limit} jobs: see --limit, or give a prefix.`);
  return shownJobs.length > 0 ? EXIT.ok : EXIT.no;
}

const unreadableFirst = (a: JobOfKey | UnreadableKey, b: JobOfKey | UnreadableKey): number =>
  'problem' in a || 'problem' in b ? Number('problem' in b) - Number('problem' in a) : byStart(a, b);

const jobsTable = (all: readonly (JobOfKey | UnreadableKey)[], now: number): Table => ({
  titles: ['JOB', 'KEY', 'LAST FIRE', 'WINNER', 'BEGAN', 'TOOK', 'OUTCOME'],
  rows: all.map((run) =>
    'problem' in run
      ? ['-', shown(run.key), '-', '-', '-', '-', run.problem]
      : [
          shown(run.job),
          shown(run.key),
          timeText(run.fire),
          shown(run.instance),
          timeText(run.started),
          tookText(run, now),
          run.outcome,
        ],
  ),
});

/** The end of a run without an outcome is unknown. */
function tookText({ started, ended, outcome }: LastRun, now: number): string {
  if (outcome === 'running') return `${shortDuration(now - started.getTime())} so far`;
  return ended ? shortDuration(ended.getTime() - started.getTime()) : '-';
}

const noJobs = (prefix: string): string =>
  `No run of a job with \`oncePer\` is remembered${prefix === '' ? '' : ` whose key begins with ${shown(prefix)}`}.`;

/**
 * Runs a job by hand: the board of the app does it, on the instance that gets the request.
 * @throws UsageError when it is not allowed, or the job is not known
 */
export async function runJob(session: Session, key: string): Promise<ExitCode> {
  const { settings, terminal, locks } = session;
  const { board, readOnly, json } = settings;
  if (readOnly) throw new UsageError('`run` is not allowed with --read-only.');
  if (!board) throw new UsageError('`run` needs the address of the board of the app: set --board or REDIS_LOCK_BOARD.');
  locks.checkKey(key);
  const job = settings.job ?? (await jobOf(session, key));
  const { status, isRunning, error } = await askBoard(session, board, { key, name: job });
  // A page of a proxy, such as a login, may have the same status.
  const hasRun = isRunning !== undefined;
  const end = isRunning ? 'still runs; an error is in the log of the app' : 'has ended without an error';
  const why = error ?? (status < 300 ? 'This is not the answer of a board: check its address.' : '');
  const text = hasRun ? `The job ${shown(job)} ${end}.` : `The board answered with ${status}. ${why}`.trim();
  if (json) terminal.write(jsonLine({ key, job, status, isRunning: isRunning === true, text }));
  else if (hasRun) terminal.line(text);
  else terminal.complain(text);
  return hasRun ? EXIT.ok : EXIT.no;
}

/** The only job with this key that has run before. */
async function jobOf({ settings, locks }: Session, key: string): Promise<string> {
  const names = (await within(settings, locks.runs(key))).map(({ job }) => job);
  if (names.length === 1) return names[0]!;
  const what = names.length === 0 ? 'No run of a job' : `Several jobs (${names.map(shown).join(', ')})`;
  throw new UsageError(`${what} with the key ${shown(key)} ${names.length === 0 ? 'is' : 'are'} known: give --job.`);
}

/** How long the board waits for the end of a run before it answers. */
const BOARD_WAITS_MS = 1_000;

/**
 * Sends the request to the board. `isRunning`: whether the job still runs; undefined: it was not run.
 * @throws LockStoreError when the board cannot be reached, or does not answer
 */
async function askBoard(
  { settings: { timeoutMs }, terminal }: Session,
  { url, authorization }: Board,
  body: { readonly key: string; readonly name: string },
) {
  const address = new URL(url);
  address.pathname = `${url.pathname.replace(/\/$/, '')}/run-now`;
  const headers = {
    'content-type': 'application/json',
    'x-lock-board': 'run-now',
    ...(authorization && { authorization }),
  };
  const late = AbortSignal.timeout(timeoutMs + BOARD_WAITS_MS);
  const signal = AbortSignal.any([terminal.signal, late]);
  try {
    const init = { method: 'POST', headers, body: JSON.stringify(body), redirect: 'manual', signal } as const;
    const response = await fetch(address, init);
    const { status } = response;
    const answer: { readonly error?: unknown; readonly isRunning?: unknown } = objectIn(await response.text()) ?? {};
    const { error, isRunning } = answer;
    return {
      status,
      isRunning: response.ok && typeof isRunning === 'boolean' ? isRunning : undefined,
      error: typeof error === 'string' ? printable(error) : undefined,
    };
  } catch (error) {
    if (late.aborted) {
      throw new LockStoreError(`The board at ${address.origin} has not answered in time: the job may run.`);
    }
    const { cause = error } = error as Error;
    // An error of several addresses has no text, but a code.
    const reason = messageOf(cause) || String((cause as NodeJS.ErrnoException).code);
    const what = `The board at ${address.origin} cannot be reached, or the connection was closed: ${reason}`;
    throw new LockStoreError(`${what}. The job may run if the request has arrived.`);
  }
}

/**
 * Takes a lock away from its holders, after a confirmation.
 * @throws UsageError when it is not allowed, or cannot ask
 */
export async function release(session: Session, key: string): Promise<ExitCode> {
  const { settings, terminal, locks } = session;
  if (settings.readOnly) throw new UsageError('`release` is not allowed with --read-only.');
  if (!settings.yes && !terminal.canAsk) {
    throw new UsageError('`release` asks before it takes a lock away, and there is no terminal to ask on. Give --yes.');
  }
  locks.checkKey(key);
  const before = await within(settings, locks.inspect(key));
  if (before.holders.length === 0) return answer(session, key, false, `${shown(key)} is not held.`);
  if (!settings.yes && !(await isConfirmed(session, before)))
    return answer(session, key, false, 'Nothing was released.');
  const now = await within(settings, locks.inspect(key));
  if (!settings.yes && holdsOf(now) !== holdsOf(before)) {
    const text = 'The lock has changed hands since it was shown, and nothing was released. Look again.';
    return answer(session, key, false, text);
  }
  const { by = operator() } = settings;
  // Before the holders can notice the loss.
  const at = systemClock.now();
  // A grant that was not shown is spared; with --yes, nothing was shown.
  const seenTokens = [now.fencingToken, ...now.holders.map(({ fencingToken }) => fencingToken)];
  const upToToken = settings.yes ? undefined : Math.max(...seenTokens);
  const isReleased = await within(settings, locks.forceRelease(key, upToToken));
  if (!isReleased) return answer(session, key, false, 'Its holders have gone meanwhile, and nothing was released.');
  const next = now.waiters > 0 ? ` ${counted(now.waiters, 'call')} waited for it; the first one gets it.` : '';
  const told = 'Its holders are notified of the loss; their work may still be running.';
  const named = (await tellHistory(session, { key, by, at })) ? ` The history names ${shown(by)}.` : '';
  return answer(session, key, true, `Released ${shown(key)}. ${told}${next}${named}`, by);
}

/** The user of the tool, by the name on this machine. */
function operator(): string {
  const user = (): string => {
    try {
      return userInfo().username;
    } catch {
      // In a container, a user may have no name.
      return String(process.getuid?.());
    }
  };
  return `${user()}@${hostname()}`.slice(0, 128);
}

/** Drops no entries of the app, which has its own limits. */
const MOST = { maxEntries: MAX_HISTORY_ENTRIES, keepMs: Infinity };

/**
 * Adds the release to the history of the app, if the app has one. The lock is already released, so a failure is only reported.
 */
async function tellHistory(
  session: Session,
  { key, by, at }: { readonly key: string; readonly by: string; readonly at: number },
): Promise<boolean> {
  const { settings, terminal, locks } = session;
  try {
    if (!(await hasHistory(session))) return false;
    const record = { ...NO_FACTS, event: 'forced', key, keys: [key], by, at } as const;
    const writer = { id: `${locks.clientId}.1`, host: ownHost(), pid: process.pid };
    const batch = { ...writer, ...MOST, now: systemClock.now(), records: [record] };
    await within(settings, locks.history.append(batch));
    return true;
  } catch (error) {
    terminal.complain(`The lock is released, but the release could not be added to its history: ${errorText(error)}`);
    return false;
  }
}

async function isConfirmed({ settings, terminal }: Session, state: LockState): Promise<boolean> {
  if (settings.json) terminal.complain(jsonLine(state).trimEnd());
  else printLock(terminal, state);
  return terminal.asks('Take this lock away from its holders? Their work may still be running.');
}

const holdsOf = ({ holders }: LockState): string =>
  holders
    .map(({ attempt, fencingToken }) => `${attempt} ${fencingToken}`)
    .sort()
    .join();

/** `by`: the user who has released it. */
function answer({ settings, terminal }: Session, key: string, released: boolean, text: string, by?: string): ExitCode {
  if (settings.json) terminal.write(jsonLine({ key, released, by, text }));
  else terminal.line(text);
  return released ? EXIT.ok : EXIT.no;
}
