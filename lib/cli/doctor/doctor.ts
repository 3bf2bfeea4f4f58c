import { systemRandomness } from '../../core/randomness.js';
import { type RedisConnection } from '../../redis/client/redis-connection.js';
import { readServerFacts } from '../../redis/connection/server-facts.js';
import { errorText, jsonLine, shown } from '../output/text.js';
import { type Style } from '../output/terminal.js';
import { type Session } from '../session.js';
import { EXIT, type ExitCode, type Settings } from '../settings.js';
import { checkHandover, checkLeftovers, checkLock, removeTraces } from './lock-checks.js';
import {
  checkCluster,
  checkInfo,
  checkOffset,
  checkRights,
  checkSpread,
  checkSpreadKeys,
  clockOffset,
  type ClockOffset,
  fieldsOf,
  GIVE_RIGHTS,
  optionOf,
} from './server-checks.js';
import {
  checked,
  type CheckName,
  type DoctorFinding,
  ok,
  Place,
  problem,
  reached,
  refusalOf,
  type Result,
  type Server,
  skipped,
  warn,
} from './servers.js';

const STYLES = { ok: 'green', warn: 'yellow', problem: 'red', skipped: 'dim' } as const satisfies Record<
  DoctorFinding['level'],
  Style
>;

export async function doctor(session: Session): Promise<ExitCode> {
  const { settings, terminal } = session;
  const given = settings.connection;
  const connections = (Array.isArray(given) ? given : [given]) as readonly RedisConnection[];
  const places = connections.map((connection) => new Place(settings, connection));
  try {
    const findings = await examine(session, places);
    const count = (level: DoctorFinding['level']): number => findings.filter((one) => one.level === level).length;
    const counts = { ok: count('ok'), warn: count('warn'), problem: count('problem'), skipped: count('skipped') };
    if (settings.json) terminal.write(jsonLine({ findings, counts }));
    else print(session, findings, counts);
    return counts.problem > 0 ? EXIT.no : EXIT.ok;
  } finally {
    await Promise.all(places.map((place) => place.close()));
  }
}

async function examine(session: Session, places: readonly Place[]): Promise<DoctorFinding[]> {
  const { settings } = session;
  const { servers, unreached } = await reached(places);
  const findings = unreached.map(({ place, error }): DoctorFinding => {
    const result = { text: 'This server could not be reached.', advice: errorText(error) };
    return { check: 'server', level: 'problem', server: place.store.commands.address, ...result };
  });
  const offsets: ClockOffset[] = [];
  const runIds: (string | undefined)[] = [];
  for (const server of servers) {
    const info = await infoOf(server);
    runIds.push(info === null ? undefined : readServerFacts(info).runId);
    findings.push(...(await examineServer(settings, server, info, offsets)));
  }
  const [first] = servers;
  if (first?.place.client.isCluster) {
    const cluster = first.place.client;
    findings.push(...(await checked('cluster', '', () => checkCluster(first, cluster))));
  }
  if (offsets.length > 1) findings.push(...(await checked('clock', '', async () => [checkSpread(offsets)])));
  if (settings.isQuorum) findings.push(...(await examineQuorum(session, places, servers, runIds)));
  return findings;
}

async function infoOf(server: Server): Promise<string | null> {
  try {
    return await server.ask((client) => client.info());
  } catch (error) {
    if (refusalOf(error) === null) throw error;
    return null;
  }
}

/** Runs all checks of one server. Adds the offset of its clock to `offsets`. */
async function examineServer(
  settings: Settings,
  server: Server,
  info: string | null,
  offsets: ClockOffset[],
): Promise<DoctorFinding[]> {
  const { isCluster, findsMaster, readOnly, keyPrefix, hashTag } = settings;
  const { name, place, storageKey } = server;
  const findings: DoctorFinding[] = [];
  const check = async (about: CheckName, run: () => Promise<readonly Result[]>): Promise<void> => {
    findings.push(...(await checked(about, name, run)));
  };
  if (info === null) {
    const text = 'The user may not read the facts of this server (+info), which the module also reads.';
    await check('rights', async () => [warn(text, GIVE_RIGHTS)]);
  } else {
    const use = { isCluster, findsMaster, minReplicas: 0 };
    const isLogged = fieldsOf(info)('aof_enabled') === '1';
    const results = checkInfo(info, use, isLogged ? await optionOf(server, 'appendfsync') : undefined);
    for (const [about, found = []] of Object.entries(results)) await check(about as CheckName, async () => found);
  }
  if (!isCluster) await check('server', () => checkSpreadKeys(server, keyPrefix));
  await check('clock', async () => {
    const offset = await clockOffset(server);
    offsets.push(offset);
    return [checkOffset(offset)];
  });
  await check('rights', () => checkRights(server, `${keyPrefix}wake:doctor`, readOnly));
  if (readOnly) {
    for (const about of ['lock', 'pub/sub'] as const)
      await check(about, async () => [skipped('Not checked: --read-only.')]);
  } else {
    await check('lock', () => checkLock(settings, place.store, server.key));
    await check('pub/sub', () => checkHandover(settings, server));
    await removeTraces(server, storageKey).catch(() => undefined);
  }
  await check('leftovers', () => checkLeftovers(server, keyPrefix, hashTag));
  return findings;
}

async function examineQuorum(
  { settings, locks }: Session,
  places: readonly Place[],
  servers: readonly Server[],
  runIds: readonly (string | undefined)[],
): Promise<DoctorFinding[]> {
  const key = `doctor-${systemRandomness.text(9)}`;
  const findings = await checked('quorum', '', async () => membersOf(places.length, servers.length, runIds));
  if (settings.readOnly) return findings;
  findings.push(...(await checked('lock', '', () => checkLock(settings, locks, key))));
  for (const server of servers) await removeTraces(server, server.place.storageKey(key)).catch(() => undefined);
  return findings;
}

function membersOf(all: number, up: number, runIds: readonly (string | undefined)[]): Result[] {
  const known = runIds.filter((id) => id !== undefined);
  const results: Result[] = [];
  if (new Set(known).size < known.length) {
    const text = 'Two of the addresses lead to one server, which would vote twice.';
    results.push(problem(text, 'Give each independent master once.'));
  }
  if (all % 2 === 0 || all < 3) {
    const text = `The quorum has ${all} masters. It survives no more failures than one of ${all - 1} would.`;
    results.push(warn(text, 'Use an odd number of masters, from three on.'));
  }
  const majority = Math.floor(all / 2) + 1;
  if (up < majority) {
    const text = `${up} of ${all} masters answer, and ${majority} are needed: no lock is granted.`;
    results.push(problem(text, 'Start the others.'));
  }
  return results.length > 0 ? results : [ok(`${up} of ${all} masters answer, and ${majority} are needed.`)];
}

function print(
  { terminal }: Session,
  findings: readonly DoctorFinding[],
  counts: Readonly<Record<DoctorFinding['level'], number>>,
): void {
  const servers = [...new Set(findings.map(({ server }) => server))];
  for (const server of servers) {
    terminal.line(terminal.styled(server === '' ? 'All servers together' : shown(server), 'bold'));
    for (const { check, level, text, advice } of findings.filter((one) => one.server === server)) {
      terminal.line(`  ${terminal.styled(level.padEnd(8), STYLES[level])}${check.padEnd(12)}${shown(text)}`);
      if (advice !== '') terminal.line(`${' '.repeat(22)}What to do: ${shown(advice)}`);
    }
    terminal.line();
  }
  const { ok: good, warn: warnings, problem: problems, skipped: left } = counts;
  terminal.line(`${good} ok, ${warnings} to note, ${problems} problems, ${left} skipped.`);
}
