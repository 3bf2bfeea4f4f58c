import { eventsTable } from '../output/history-text.js';
import { jsonLine, shown } from '../output/text.js';
import { type Session } from '../session.js';
import { EXIT, type ExitCode } from '../usage.js';

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

/** Whether there is a history at all. @throws LockStoreError */
export const hasHistory = async ({ settings, locks }: Session): Promise<boolean> =>
  (await locks.history.read({ limit: 1 }, settings.timeoutMs)).length > 0;

async function noEvents(session: Session, key: string | undefined): Promise<string> {
  if (key !== undefined && (await hasHistory(session))) return `The history has no event of ${shown(key)}.`;
  return (
    'There is no history under this prefix. The app writes one with the option `history: true` of RedisLockModule, and ' +
    'keeps it for a day after the last event, unless the option says otherwise.'
  );
}
