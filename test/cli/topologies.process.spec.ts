import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../scripts/redis.mjs';
import { startCluster, startQuorum, startSecured, startSentinels } from '../../scripts/topologies.mjs';
import { closeAll } from '../support/apps/lock-app.js';
import { type Settings } from '../../lib/cli/settings.js';
import { cli } from './support/cli.js';
import { hold, openStoreOf, runJob, tell } from './support/locks.js';

interface Finding {
  readonly check: string;
  readonly level: string;
  readonly text: string;
}

const addressesOf = (list: readonly { readonly host: string; readonly port: number }[]): string =>
  list.map(({ host, port }) => `${host}:${port}`).join(',');

/** What must hold on every topology: the commands find, show and release locks, and the doctor finds no problem. */
async function expectAllCommands(
  connection: Settings['connection'],
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<readonly Finding[]> {
  const locks = openStoreOf(connection);
  const keys = ['order:1', 'order:2', 'order:3', 'order:4'];
  for (const key of keys) await hold(locks, key);
  const listed = JSON.parse((await cli(['ls', '--json', ...args], { env })).stdout) as { locks: { key: string }[] };
  expect(listed.locks.map(({ key }) => key)).toEqual(keys);
  expect(await cli(['inspect', 'order:3', ...args], { env })).toMatchObject({ code: 0 });
  expect(await cli(['release', 'order:3', '--yes', ...args], { env })).toMatchObject({ code: 0 });
  expect(await locks.inspect('order:3')).toMatchObject({ mode: 'free' });
  await runJob(locks, 'report', 'Reports.noon', 'done');
  const { jobs } = JSON.parse((await cli(['jobs', '--json', ...args], { env })).stdout) as { jobs: unknown[] };
  expect(jobs).toMatchObject([{ key: 'report', job: 'Reports.noon', instance: 'web-1:4321', outcome: 'done' }]);
  const doctor = await cli(['doctor', '--json', ...args], { env });
  const { findings } = JSON.parse(doctor.stdout) as { findings: Finding[] };
  expect(findings.filter(({ level }) => level === 'problem')).toEqual([]);
  expect([doctor.code, doctor.stderr]).toEqual([0, '']);
  return findings;
}

/** The history is read, and records who has released a lock. */
async function expectHistory(connection: Settings['connection'], args: readonly string[]): Promise<void> {
  const locks = openStoreOf(connection);
  await tell(locks, { event: 'acquired', key: 'order:4' });
  expect(await cli(['release', 'order:4', '--yes', '--by', 'ann', ...args])).toMatchObject({ code: 0, stderr: '' });
  const { stdout } = await cli(['history', 'order:4', '--json', ...args]);
  const { entries } = JSON.parse(stdout) as { entries: unknown[] };
  expect(entries).toMatchObject([{ event: 'forced', by: 'ann' }, { event: 'acquired' }]);
  await hold(locks, 'order:4');
}

afterEach(closeAll);

describe('the tool', () => {
  it('works on a cluster', async () => {
    const cluster = await startCluster({ nodeTimeoutMs: 20_000 });
    try {
      const args = ['--cluster', addressesOf(cluster.connection.cluster.slice(0, 2))];
      const findings = await expectAllCommands(cluster.connection, args);
      await expectHistory(cluster.connection, args);
      const text = (check: string): string =>
        findings
          .filter((one) => one.check === check)
          .map((one) => one.text)
          .join(' ');
      expect(text('cluster')).toContain('All slots are served by 3 masters, with 3 replicas.');
      expect(text('cluster')).toContain('A master counts as down after 20000 ms');
      expect(findings.filter(({ check }) => check === 'pub/sub')).toHaveLength(3);
      const single = await cli(['doctor', '--json', '--url', cluster.masters[0]!.url]);
      expect(single.code).toBe(1);
      expect(single.stdout).toContain('Use `--cluster`.');
    } finally {
      await closeAll();
      await cluster.stop();
    }
  });

  it('works behind Sentinel', async () => {
    const group = await startSentinels({ downAfterMs: 20_000 });
    try {
      const { sentinels, name } = group.connection;
      const args = ['--sentinel', addressesOf(sentinels), '--sentinel-name', name];
      const findings = await expectAllCommands(group.connection, args);
      await expectHistory(group.connection, args);
      const replication = findings.find(({ check }) => check === 'replication');
      expect(replication).toMatchObject({ text: expect.stringContaining('2 replicas in step') });
      const wrong = await cli(['doctor', '--json', '--url', group.sentinels[0]!.url]);
      expect(wrong.stdout).toContain('Use `--sentinel` and `--sentinel-name`.');
      expect(wrong.code).toBe(1);
    } finally {
      await closeAll();
      await group.stop();
    }
  });

  it('works on a quorum, also when one master is away', async () => {
    const quorum = await startQuorum(3);
    try {
      const args = ['--quorum', quorum.connection.join(',')];
      await expectAllCommands(quorum.connection, args);
      await expectHistory(quorum.connection, args);
      await quorum.servers[2]!.stop();
      const { locks } = JSON.parse((await cli(['ls', '--json', ...args])).stdout) as { locks: unknown[] };
      expect(locks).toHaveLength(3);
      const { code, stdout } = await cli(['doctor', ...args]);
      expect([code, stdout]).toEqual([1, expect.stringContaining('This server could not be reached.')]);
      expect(stdout).toContain('2 of 3 masters answer, and 2 are needed.');
    } finally {
      await closeAll();
      await quorum.stop();
    }
  });

  it('works over TLS with the permissions of docs/security.md for a user for locks', async () => {
    const [secured, folder] = [await startSecured(), makeFolder()];
    try {
      const { host, port, username, password, tls } = secured.connection;
      const file = (name: string, text: string): string => {
        const path = join(folder.path, name);
        writeFileSync(path, text, { mode: 0o600 });
        return path;
      };
      const files = ['ca', 'cert', 'key'].flatMap((name) => [
        `--tls-${name}`,
        file(name, tls[name as keyof typeof tls]),
      ]);
      const args = ['--url', `rediss://${host}:${port}`, '--username', username, ...files];
      const findings = await expectAllCommands(secured.connection, args, { REDIS_LOCK_PASSWORD: password });
      const rights = findings.filter(({ check }) => check === 'rights');
      expect(rights).toMatchObject([{ level: 'ok', text: 'The user may do all that locks need.' }]);
      const byFile = [...args, '--password-file', file('password', `${password}\n`)];
      expect(await cli(['ls', ...byFile])).toMatchObject({ code: 0 });
      const byUrl = { REDIS_LOCK_URL: `rediss://${username}:${password}@${host}:${port}` };
      expect(await cli(['ls', ...files], { env: byUrl })).toMatchObject({ code: 0 });
      expect(await cli(['ls', '--url', `rediss://${host}:${port}`])).toMatchObject({ code: 3 });
    } finally {
      await closeAll();
      await secured.stop();
      folder.remove();
    }
  });
});
