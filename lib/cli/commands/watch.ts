import { setTimeout as sleep } from 'node:timers/promises';
import { LockError } from '../../core/lock.errors.js';
import { type LockState } from '../../core/store/lock-state.js';
import { errorText } from '../error-text.js';
import { instanceText, locksTable, summaryOf, workText } from '../output/lock-text.js';
import { jsonLine, shown, timeText } from '../output/text.js';
import { type Session, within } from '../session.js';
import { EXIT, type ExitCode } from '../usage.js';
import { listed, noLocks } from './ls.js';

/** What one look has shown. */
type Look = Awaited<ReturnType<typeof listed>>;

/** Shows the looks one after the other; `error` when one has failed. */
interface View {
  show(look: Look): void | Promise<void>;
  error(text: string): void;
  end(): void;
}

/** Looks again and again until Ctrl-C. Only the first look may fail: later, Redis may be away for a while. */
export async function watch(session: Session, prefix = ''): Promise<ExitCode> {
  const { settings, terminal } = session;
  terminal.endsBySignals();
  const first = await listed(session, prefix);
  // What was listed until Ctrl-C is not all.
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

/** Returns false when the tool is to end. */
async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(ms, undefined, { signal });
    return true;
  } catch {
    return false;
  }
}

/** For people: the table, in place. */
function screenView({ settings, terminal }: Session, prefix: string): View {
  let last: Look = { locks: [], hasMore: false };
  let status = '';
  const paint = (next: string): void => {
    status = next;
    const { locks, hasMore } = last;
    const lines = locks.length > 0 ? terminal.linesOf(locksTable(locks, Date.now())) : [noLocks(prefix)];
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
 * For files and other programs: one line for each change. Of more locks than the limit, it follows the first ones to their end, since
 * a look may show others each time.
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
  /** One that cannot be read stays as it is known: a list shows why. */
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

/** What must differ for a lock to have changed: not its leases. */
const signOf = (state: LockState): string =>
  JSON.stringify([
    state.mode,
    state.waiters,
    state.holders.map(({ attempt }) => attempt).sort(),
    state.queue.map(({ attempt }) => attempt),
  ]);
