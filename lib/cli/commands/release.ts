import { hostname, userInfo } from 'node:os';
import { systemClock } from '../../core/clock.js';
import { NO_FACTS } from '../../core/history/history-entry.js';
import { MAX_HISTORY_ENTRIES } from '../../core/history/history.options.js';
import { ownHost } from '../../core/store/holder-text.js';
import { type LockState } from '../../core/store/lock-state.js';
import { errorText } from '../error-text.js';
import { counted, jsonLine, shown } from '../output/text.js';
import { type Session, within } from '../session.js';
import { EXIT, type ExitCode, UsageError } from '../usage.js';
import { hasHistory } from './history.js';
import { printLock } from './inspect.js';

/**
 * Takes a lock away from its holders, after a question.
 * @throws UsageError when it may not, or cannot ask
 */
export async function release(session: Session, key: string): Promise<ExitCode> {
  const { settings, terminal, locks } = session;
  if (settings.readOnly) throw new UsageError('`release` is not allowed with --read-only.');
  if (!settings.yes && !terminal.canAsk) {
    throw new UsageError('`release` asks before it takes a lock away, and there is no terminal to ask on. Give --yes.');
  }
  locks.checkKey(key);
  const before = await within(settings, locks.inspect(key));
  if (before.holders.length === 0) return answer(session, key, false, `Nobody holds ${shown(key)}.`);
  if (!settings.yes && !(await isConfirmed(session, before)))
    return answer(session, key, false, 'Nothing was released.');
  const now = await within(settings, locks.inspect(key));
  if (!settings.yes && holdsOf(now) !== holdsOf(before)) {
    const text = 'The lock has changed hands since it was shown, and nothing was released. Look again.';
    return answer(session, key, false, text);
  }
  const { by = operator() } = settings;
  // Before the holders can tell that they have lost it.
  const at = systemClock.now();
  const isReleased = await within(settings, locks.forceRelease(key));
  if (!isReleased) return answer(session, key, false, `Nobody holds ${shown(key)} any more.`);
  const next = now.waiters > 0 ? ` ${counted(now.waiters, 'call')} waited for it; the first one gets it.` : '';
  const told = 'Its holders are told that they have lost it; what they do may still be running.';
  const named = (await tellHistory(session, { key, by, at })) ? ` The history names ${shown(by)}.` : '';
  return answer(session, key, true, `Released ${shown(key)}. ${told}${next}${named}`, by);
}

/** Who uses the tool, as the machine knows them. */
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

/** Drops nothing that the app keeps, which knows its own limits. */
const MOST = { maxEntries: MAX_HISTORY_ENTRIES, keepMs: Infinity };

/**
 * Tells the history of the app who has released a lock; an app without one gets none. The lock is released by then, so a failure is
 * only told.
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
    terminal.complain(`The lock is released, but its history cannot say who did it: ${errorText(error)}`);
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

/** `by`: who has released it. */
function answer({ settings, terminal }: Session, key: string, released: boolean, text: string, by?: string): ExitCode {
  if (settings.json) terminal.write(jsonLine({ key, released, by, text }));
  else terminal.line(text);
  return released ? EXIT.ok : EXIT.no;
}
