import { byBegin, type LastRun } from '../../core/store/lock-state.js';
import { ignoreWrongType } from '../../redis/scan.js';
import { type Table } from '../output/table.js';
import { durationText, jsonLine, shown, timeText } from '../output/text.js';
import { type Session, allWithin } from '../session.js';
import { EXIT, type ExitCode } from '../usage.js';

/** The last run of a job, and the key of its lock. */
type JobOfKey = LastRun & { readonly key: string };

/** How many keys are asked about at a time. */
const AT_A_TIME = 50;

/** The jobs whose keys begin with a prefix, the last one that began first. */
export async function jobs(session: Session, prefix = ''): Promise<ExitCode> {
  const { settings, terminal } = session;
  const found = (await allWithin(session, jobGroups(session, prefix))).flat();
  const shownJobs = found.slice(0, settings.limit).sort(byBegin);
  const hasMore = found.length > settings.limit;
  if (settings.json) terminal.write(jsonLine({ jobs: shownJobs, hasMore }));
  else if (shownJobs.length > 0) terminal.table(jobsTable(shownJobs, Date.now()));
  else terminal.complain(noJobs(prefix));
  if (hasMore) terminal.complain(`There are more than ${settings.limit} jobs: see --limit, or give a prefix.`);
  return shownJobs.length > 0 ? EXIT.ok : EXIT.no;
}

/** A job is known by the lock of its key, held or not. Ends when there are more jobs than may be shown. */
async function* jobGroups({ settings, locks }: Session, prefix: string): AsyncGenerator<readonly JobOfKey[]> {
  const jobsOf = async (key: string): Promise<readonly JobOfKey[]> => {
    const runs = await locks.runs(key).catch(ignoreWrongType);
    return (runs ?? []).map((run) => ({ key, ...run }));
  };
  let count = 0;
  for await (const keys of inGroups(locks.scan(prefix))) {
    const found = (await Promise.all(keys.map(jobsOf))).flat();
    yield found;
    count += found.length;
    if (count > settings.limit) return;
  }
}

async function* inGroups(keys: AsyncIterable<string>): AsyncGenerator<readonly string[]> {
  let group: string[] = [];
  for await (const key of keys) {
    group.push(key);
    if (group.length < AT_A_TIME) continue;
    yield group;
    group = [];
  }
  if (group.length > 0) yield group;
}

const jobsTable = (all: readonly JobOfKey[], now: number): Table => ({
  titles: ['JOB', 'KEY', 'LAST FIRE', 'WINNER', 'BEGAN', 'TOOK', 'OUTCOME'],
  rows: all.map((run) => [
    shown(run.job),
    shown(run.key),
    timeText(run.fire),
    shown(run.instance),
    timeText(run.started),
    tookText(run, now),
    run.outcome,
  ]),
});

/** Nobody knows when a run has ended that did not report it. */
function tookText({ started, ended, outcome }: LastRun, now: number): string {
  if (outcome === 'running') return `${durationText(now - started.getTime())} so far`;
  return ended ? durationText(ended.getTime() - started.getTime()) : '-';
}

const noJobs = (prefix: string): string =>
  `No run of a job with \`oncePer\` is remembered${prefix === '' ? '' : ` whose key begins with ${shown(prefix)}`}.`;
