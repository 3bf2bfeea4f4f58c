import { buildPackage, forkScript } from '../../support/processes/child-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { hashOf, queued } from '../../support/redis/records.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { closeAll, freshKey, openAdmin } from '../../support/apps/lock-app.js';

beforeAll(buildPackage, 60_000);
afterEach(closeAll);

interface Told {
  readonly what: string;
  readonly at: number;
}

/** Starts the process and has it work under the lock. */
async function start(work: 'told' | 'endless' | 'deaf', drainMs: number) {
  const key = freshKey('signal');
  const module = { connection: redisUrl(), drainMs, leaseMs: 10_000 };
  const { child, gone } = forkScript('shutdown-process.mjs', JSON.stringify({ module, key, work }));
  const told: Told[] = [];
  child.on('message', (message: Told) => told.push(message));
  const find = (what: string) => told.find((one) => one.what === what);
  await eventually(() => find('began'), { timeoutMs: 30_000 });
  return { key, child, gone, told, find };
}

/** What lies in Redis for a lock: it may remember its last token, but no hold and no waiter. */
async function holdsOf(key: string): Promise<string[]> {
  const fields = Object.keys(await hashOf(openAdmin(), key));
  expect(fields).toContain('token');
  return fields.filter((field) => /^(hold|queue|place|id):/.test(field));
}

describe('SIGTERM during locked work', () => {
  it('lets the work end under its lock before the process ends by the signal, with no lock left', async () => {
    const { key, child, gone, told, find } = await start('told', 10_000);
    const admin = openAdmin();
    child.send('acquire');
    await eventually(async () => (await queued(admin, key)) > 0);
    child.kill('SIGTERM');
    expect(await eventually(() => find('refused'))).toMatchObject({ code: 'LOCK_SHUTDOWN' });
    child.send('end');
    expect(await gone).toEqual([null, 'SIGTERM']);
    expect(find('ended')).toMatchObject({ held: true });
    expect(told.map(({ what }) => what)).toEqual(['began', 'refused', 'ended', 'shutdown']);
    expect(find('shutdown')).toMatchObject({ signal: 'SIGTERM' });
    expect(await holdsOf(key)).toEqual([]);
  });

  it('aborts work that goes on after drainMs, and not before', async () => {
    const { key, child, gone, told, find } = await start('endless', 700);
    const at = Date.now();
    child.kill('SIGTERM');
    expect(await gone).toEqual([null, 'SIGTERM']);
    expect(find('aborted')).toMatchObject({ reason: 'shutdown', cause: 'LOCK_SHUTDOWN' });
    expect(find('aborted')!.at - at).toBeGreaterThanOrEqual(690);
    expect(told.map(({ what }) => what).slice(0, 3)).toEqual(['began', 'aborted', 'failed']);
    expect(await holdsOf(key)).toEqual([]);
  });

  it('ends the process even when the work ignores the signal, with no lock left', async () => {
    const { key, child, gone, find } = await start('deaf', 300);
    child.kill('SIGTERM');
    expect(await gone).toEqual([null, 'SIGTERM']);
    expect(find('shutdown')).toBeDefined();
    expect(await holdsOf(key)).toEqual([]);
  });
});
