import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { openStore } from '../support/stores.js';
import { itWithQueue } from '../../support/topologies/topology.js';
import { enqueue, untilWaiting } from '../../support/waiting/waiters.js';
import { startMortal } from '../support/mortal.js';

const PATIENT = { waitMs: 25_000 };

async function startTwo() {
  return { a: await startApp(), b: await startApp(), store: openStore(), key: freshKey() };
}

afterEach(closeAll);

describe('fair: waiters that miss their turn', () => {
  itWithQueue('leave the queue within their waiter lease when they are killed', async () => {
    const { a, b, key } = await startTwo();
    const gone = await startMortal();
    const held = await a.locks.acquire(key, { leaseMs: 60_000 });
    void gone.acquire(key, PATIENT);
    await untilWaiting(a, key);
    const { lock } = await enqueue(b, key);
    await gone.kill();
    const waiters = async () => (await a.locks.inspect(key)).waiters;
    await eventually(async () => (await waiters()) === 1, { timeoutMs: 40_000 });
    await held.release();
    expect((await lock).held).toBe(true);
  });

  it('do not block the waiters behind them when they are killed', async () => {
    const { a, b, key } = await startTwo();
    const gone = await startMortal();
    const held = await a.locks.acquire(key);
    void gone.acquire(key, PATIENT);
    await untilWaiting(a, key);
    const { lock } = await enqueue(b, key);
    await gone.kill();
    await held.release();
    expect((await lock).held).toBe(true);
  });
});
