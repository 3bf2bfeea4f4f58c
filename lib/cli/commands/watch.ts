import { setTimeout as sleep } from 'node:timers/promises';
import { LockError } from '../../core/lock.errors.js';
import { type LockState } from '../../core/store/lock-state.js';
import { errorText } from '../error-text.js';
import { instanceText, locksTable, summaryOf, workText } from '../output/lock-text.js';
import { jsonLine, shown, timeText } from '../output/text.js';
import { type Session } from '../session.js';
import { EXIT, type ExitCode } from '../usage.js';
import { listed, noLocks } from './ls.js';

/** What one look has shown. */
type Look = Awaited<ReturnType<typeof listed>>;

/** Shows the looks one after the other; `error` when one has failed. */
interface View {
  show(look: Look): void;
  error(text: string): void;
  end(): void;
}

/** Looks again and again until Ctrl-C. Only the first look may fail: later, Redis may be away for a while. */
export async function watch(session: Session, prefix = ''): Promise<ExitCode> {
  const { settings, terminal } = session;
  terminal.endsBySignals();
  const first = await listed(session, prefix);
  const view = terminal.isScreen && !settings.json ? screenView(session, prefix) : lineView(session);
  try {
    view.show(first);
    while (await pause(settings.intervalMs, terminal.signal)) {
      try {
        view.show(await listed(session, prefix));
      } catch (error) {
        if (!(error instanceof LockError)) throw error;
        view.error(errorText(error));
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
  const giveBack = terminal.takeScreen();
  let last: Look = { locks: [], hasMore: false };
  const paint = (status: string): void => {
    const { locks, hasMore } = last;
    const lines = locks.length > 0 ? terminal.linesOf(locksTable(locks, Date.now())) : [noLocks(prefix)];
    const more = hasMore ? [`More than ${settings.limit}: see --limit.`] : [];
    terminal.repaint([`${timeText(new Date())}  ${status}`, '', ...lines, ...more]);
  };
  return {
    show: (look) => {
      last = look;
      paint(`every ${settings.intervalMs} ms; Ctrl-C ends`);
    },
    error: (text) => paint(text),
    end: giveBack,
  };
}

/** For files and other programs: one line for each change. */
function lineView({ settings, terminal }: Session): View {
  let before = new Map<string, LockState>();
  let failure = '';
  const say = (change: 'held' | 'changed' | 'gone', lock: LockState): void => {
    const at = new Date();
    if (settings.json) return terminal.write(jsonLine({ at, change, lock }));
    const [holder] = change === 'gone' ? [] : lock.holders;
    const by = holder ? ` by ${instanceText(holder)} ${workText(holder)}` : '';
    const state = change === 'gone' ? '' : `: ${summaryOf(lock)}${by}`;
    terminal.line(`${timeText(at)}  ${change.padEnd(7)}  ${shown(lock.key)}${state}`);
  };
  return {
    show: ({ locks }) => {
      failure = '';
      const now = new Map(locks.map((lock) => [lock.key, lock]));
      for (const lock of before.values()) if (!now.has(lock.key)) say('gone', lock);
      for (const lock of locks) {
        const known = before.get(lock.key);
        if (!known) say('held', lock);
        else if (signOf(known) !== signOf(lock)) say('changed', lock);
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
