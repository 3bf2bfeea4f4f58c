import { type LockState } from '../../core/store/lock-state.js';
import { locksTable } from '../output/lock-text.js';
import { jsonLine, shown } from '../output/text.js';
import { type Session, allWithin } from '../session.js';
import { EXIT, type ExitCode } from '../usage.js';

/** The locks whose keys begin with a prefix, sorted, and whether there may be more of them. */
export async function listed(
  session: Session,
  prefix: string,
): Promise<{ readonly locks: readonly LockState[]; readonly hasMore: boolean }> {
  const { settings, locks: store } = session;
  const found = await allWithin(session, store.list({ prefix, limit: settings.limit + 1 }));
  const locks = found.slice(0, settings.limit).sort((a, b) => (a.key < b.key ? -1 : 1));
  return { locks, hasMore: found.length > settings.limit };
}

export async function ls(session: Session, prefix = ''): Promise<ExitCode> {
  const { settings, terminal } = session;
  const { locks, hasMore } = await listed(session, prefix);
  if (settings.json) terminal.write(jsonLine({ locks, hasMore }));
  else if (locks.length > 0) terminal.table(locksTable(locks, Date.now()));
  else terminal.complain(noLocks(prefix));
  if (hasMore) terminal.complain(`There are more than ${settings.limit} locks: see --limit, or give a prefix.`);
  return locks.length > 0 ? EXIT.ok : EXIT.no;
}

export const noLocks = (prefix: string): string =>
  `No lock is held or waited for${prefix === '' ? '' : ` whose key begins with ${shown(prefix)}`}.`;
