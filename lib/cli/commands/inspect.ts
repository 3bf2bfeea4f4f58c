import { type LockState } from '../../core/store/lock-state.js';
import { holdersTable, queueTable, summaryOf } from '../output/lock-text.js';
import { type Terminal } from '../output/terminal.js';
import { jsonLine, shown } from '../output/text.js';
import { type Session, within } from '../session.js';
import { EXIT, type ExitCode } from '../usage.js';

export async function inspect({ settings, terminal, locks }: Session, key: string): Promise<ExitCode> {
  locks.checkKey(key);
  const state = await within(settings, locks.inspect(key));
  if (settings.json) terminal.write(jsonLine(state));
  else printLock(terminal, state);
  return state.mode === 'free' && state.waiters === 0 ? EXIT.no : EXIT.ok;
}

/** One lock, for people: its holders, then its queue. */
export function printLock(terminal: Terminal, state: LockState): void {
  const now = Date.now();
  terminal.line(terminal.styled(shown(state.key), 'bold'));
  terminal.line(`${summaryOf(state)}; last fencing token: ${state.fencingToken || 'none is remembered'}`);
  if (state.holders.length > 0) {
    terminal.line();
    terminal.table(holdersTable(state.holders, now));
  }
  if (state.queue.length > 0) {
    terminal.line();
    terminal.table(queueTable(state.queue, now));
  }
}
