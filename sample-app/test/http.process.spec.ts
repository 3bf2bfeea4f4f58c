import { eventually } from '../../test/support/waiting/eventually.js';
import type { Charge } from '../src/orders/orders.service.js';
import { type Deployment, type Instance, cleanUp, deploy } from './support/instances.js';
import { readEvent } from './support/read-event.js';
import { overlap, spansOf } from './support/spans.js';

const charge = (instance: Instance, order: string): Promise<Response> =>
  fetch(`${instance.url}/orders/${order}/charge`, { method: 'POST' });

const read = (instance: Instance, sku: string): Promise<Response> => fetch(`${instance.url}/catalogue/${sku}`);

const write = (instance: Instance, sku: string, price: unknown): Promise<Response> =>
  fetch(`${instance.url}/catalogue/${sku}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ price }),
  });

const started = ({ sql }: Deployment, table: 'order_events' | 'catalogue_events', count: number): Promise<unknown> =>
  eventually(() => spansOf(sql, table).length >= count, { message: `Fewer than ${count} of ${table} have started` });

describe('the routes of two instances', () => {
  afterEach(cleanUp);

  it('charge one order twice in sequence, with a rising token', async () => {
    const app = await deploy(['A', 'B']);
    const [a, b] = app.instances as [Instance, Instance];
    const answers = await Promise.all([charge(a, '7'), charge(b, '7')]);
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    const charges = (await Promise.all(answers.map((answer) => answer.json()))) as Charge[];
    const [first, second] = spansOf(app.sql, 'order_events');
    expect(overlap(first!, second!)).toBe(false);
    expect(second!.fencingToken).toBeGreaterThan(first!.fencingToken);
    const answered = new Set(charges.map(({ fencingToken }) => fencingToken));
    expect(answered).toEqual(new Set([first!.fencingToken, second!.fencingToken]));
  }, 60_000);

  it('charge two orders at the same time', async () => {
    const app = await deploy(['A', 'B'], { ORDER_CHARGE_MS: '4000' });
    const [a, b] = app.instances as [Instance, Instance];
    const answers = await Promise.all([charge(a, '7'), charge(b, '8')]);
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    const [first, second] = spansOf(app.sql, 'order_events');
    expect(overlap(first!, second!)).toBe(true);
  }, 60_000);

  it('read an article at the same time, and write it alone', async () => {
    const app = await deploy(['A', 'B'], { CATALOGUE_READ_MS: '3000', CATALOGUE_WRITE_MS: '300' });
    const [a, b] = app.instances as [Instance, Instance];
    expect((await write(a, 'tea', 250)).status).toBe(200);
    const readers = [read(a, 'tea'), read(b, 'tea')];
    await started(app, 'catalogue_events', 3);
    const answers = await Promise.all([...readers, write(b, 'tea', 300), write(a, 'tea', 350)]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);

    const spans = spansOf(app.sql, 'catalogue_events');
    const [first, second] = spans.filter(({ mode }) => mode === 'read');
    expect(overlap(first!, second!)).toBe(true);
    for (const writer of spans.filter(({ mode }) => mode === 'write')) {
      for (const other of spans) expect(other !== writer && overlap(other, writer)).toBe(false);
    }
    expect((await write(a, 'tea', 'much')).status).toBe(400);
    expect((await read(a, 'coffee')).status).toBe(404);
  }, 60_000);

  it('show the held locks on the board, and answer with 423 when one stays busy', async () => {
    const app = await deploy(['A', 'B'], { ORDER_CHARGE_MS: '5000', LOCK_WAIT_MS: '200' });
    const [a, b] = app.instances as [Instance, Instance];
    const charged = charge(a, '7');
    await started(app, 'order_events', 1);
    const fencingToken = spansOf(app.sql, 'order_events')[0]!.fencingToken;
    const { locks } = await readEvent<{ locks: object[] }>(`${b.url}/locks/events?view=locks`, 'state');
    const held = { key: 'order:7', mode: 'write', token: String(fencingToken) };
    expect(locks).toContainEqual(expect.objectContaining(held));
    const busy = await charge(b, '7');
    expect([busy.status, busy.headers.get('retry-after')]).toEqual([423, '1']);
    expect(await busy.json()).toMatchObject({ statusCode: 423, code: 'LOCK_WAIT_TIMEOUT' });
    expect((await charged).status).toBe(201);
  }, 60_000);
});
