import { type LockState } from '../../core/store/lock-state.js';
import { counted, jsonLine, shown } from '../output/text.js';
import { type Session, within } from '../session.js';
import { EXIT, type ExitCode, UsageError } from '../usage.js';
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
  const isReleased = await within(settings, locks.forceRelease(key));
  const next = now.waiters > 0 ? ` ${counted(now.waiters, 'call')} waited for it; the first one gets it.` : '';
  const told = 'Its holders are told that they have lost it; what they do may still be running.';
  const text = isReleased ? `Released ${shown(key)}. ${told}${next}` : `Nobody holds ${shown(key)} any more.`;
  return answer(session, key, isReleased, text);
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

function answer({ settings, terminal }: Session, key: string, released: boolean, text: string): ExitCode {
  if (settings.json) terminal.write(jsonLine({ key, released, text }));
  else terminal.line(text);
  return released ? EXIT.ok : EXIT.no;
}
