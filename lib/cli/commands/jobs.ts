import { byStart, type JobOfKey, type LastRun, type UnreadableKey } from '../../core/store/lock-state.js';
import { type Table } from '../output/table.js';
import { durationText, jsonLine, shown, timeText } from '../output/text.js';
import { type Session, allWithin } from '../session.js';
import { EXIT, type ExitCode } from '../usage.js';

/** The jobs whose keys begin with a prefix, the last one that began first. */
export async function jobs(session: Session, prefix = ''): Promise<ExitCode> {
  const { settings, terminal, locks } = session;
  // One more than is shown tells that there are more.
  const found = await allWithin(session, locks.jobs({ prefix, limit: settings.limit + 1 }));
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

/** Nobody knows when a run has ended that did not report it. */
function tookText({ started, ended, outcome }: LastRun, now: number): string {
  if (outcome === 'running') return `${durationText(now - started.getTime())} so far`;
  return ended ? durationText(ended.getTime() - started.getTime()) : '-';
}

const noJobs = (prefix: string): string =>
  `No run of a job with \`oncePer\` is remembered${prefix === '' ? '' : ` whose key begins with ${shown(prefix)}`}.`;
