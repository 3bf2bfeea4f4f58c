import { hostname } from 'node:os';
import { Controller, Get, type INestApplication, Injectable, Param, Query, Sse, UseInterceptors } from '@nestjs/common';
import { type Observable, of } from 'rxjs';
import {
  Limited,
  LockBusyError,
  LockConfigurationError,
  Locked,
  LockExceptionFilter,
  type LockExceptionFilterOptions,
  LockInterceptor,
  LockKeyError,
  LockWaitTimeoutError,
  type RequestLockOptions,
} from '../../../lib/index.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { type Answer, type Platform, PLATFORMS, type Request, startRequests } from '../support/requests.js';
import { routesOf } from '../support/routes.js';
import { rejection } from '../../support/waiting/rejection.js';
import { enqueue } from '../../support/waiting/waiters.js';

const KEY = 'order:<0.params.id>';
const LIMIT = { mode: 'read', permits: 2, ifBusy: 'throw' } as const;

@Injectable()
class Orders {
  @Limited('order:<0>', 2, { ifBusy: 'throw' })
  async limited(_id: string): Promise<string> {
    return 'ran';
  }

  @Limited('order:<0>', () => 2, { waitMs: 20 })
  async limitedSoon(_id: string): Promise<string> {
    return 'ran';
  }

  @Locked('order:<0>', { maxWaiters: 1 })
  async bounded(_id: string): Promise<string> {
    return 'ran';
  }

  @Locked('order:<0>')
  async byArgument(_id: string): Promise<string> {
    return 'ran';
  }

  @Locked('order:<0>', { ifBusy: 'throw' })
  async busy(_id: string): Promise<string> {
    return 'ran';
  }
}

@Controller()
class OrdersController {
  constructor(private readonly orders: Orders) {}

  @Get('limited-method/:id')
  limitedMethod(@Param('id') id: string): Promise<string> {
    return this.orders.limited(id);
  }

  @Get('limited-soon/:id')
  limitedSoon(@Param('id') id: string): Promise<string> {
    return this.orders.limitedSoon(id);
  }

  @Get('bounded/:id')
  bounded(@Param('id') id: string): Promise<string> {
    return this.orders.bounded(id);
  }

  @Get('inner-key')
  @UseInterceptors(LockInterceptor.for('outer'))
  innerKey(@Query('q') id: string): Promise<string> {
    return this.orders.byArgument(id);
  }

  @Get('inner-busy/:id')
  @UseInterceptors(LockInterceptor.for('outer', { status: 409 }))
  innerBusy(@Param('id') id: string): Promise<string> {
    return this.orders.busy(id);
  }

  @Sse('events/:id')
  @UseInterceptors(LockInterceptor.for(KEY, { ifBusy: 'throw', status: 409 }))
  events(): Observable<object> {
    return of({ data: 'ran' });
  }
}

const Routes = routesOf({
  'busy/:id': LockInterceptor.for(KEY, { ifBusy: 'throw' }),
  'conflict/:id': LockInterceptor.for(KEY, { ifBusy: 'throw', status: 409 }),
  'soon-conflict/:id': LockInterceptor.for(KEY, { waitMs: 20, status: 409 }),
  'limited/:id': LockInterceptor.for(KEY, LIMIT),
  'limited-by-request/:id': LockInterceptor.for(KEY, {
    ...LIMIT,
    permits: ({ query }: Request) => Number(query['seats']),
  }),
  'limited-by-instance/:id': LockInterceptor.for(KEY, { ...LIMIT, permits: 20, perInstance: () => 1 }),
  query: LockInterceptor.for('order:<0.query.q>', { status: 409 }),
  function: LockInterceptor.for(({ query }: Request) => query['q'] ?? ''),
});

const BUSY = { message: 'This is in use at the moment; try again.', retryAfterMs: 1_000 };
const LOCKED = { ...BUSY, statusCode: 423, error: 'Locked', code: 'LOCK_BUSY' };
const CONFLICT = { ...BUSY, statusCode: 409, error: 'Conflict', code: 'LOCK_BUSY' };
const TOO_MANY = { ...BUSY, statusCode: 429, error: 'Too Many Requests', code: 'LOCK_BUSY' };
const MISSING = {
  statusCode: 400,
  error: 'Bad Request',
  code: 'LOCK_KEY',
  message: 'The request lacks a value that it has to have, or has a wrong one.',
};

const ORDERS = { controllers: [OrdersController, Routes], providers: [Orders] };
/** With the filter, or (`null`) without. */
const start = (platform: Platform, options: LockExceptionFilterOptions | null = {}) => {
  const filter = (app: INestApplication): void => void app.useGlobalFilters(new LockExceptionFilter(options ?? {}));
  return startRequests(platform, ORDERS, options ? { prepare: filter } : {});
};

/** An app with a key that is held, for writing or by all permits. */
async function startHeld(platform: Platform, mode: 'read' | 'write', options?: LockExceptionFilterOptions | null) {
  const [app, id] = [await start(platform, options), freshKey()];
  const count = mode === 'read' ? 2 : 1;
  for (let i = 0; i < count; i += 1) await app.locks.acquire(`order:${id}`, { mode });
  return { app, id };
}

function expectTold({ status, text, headers }: Answer, body: object, id: string): void {
  const { retryAfterMs, statusCode } = body as Partial<typeof LOCKED>;
  expect([status, JSON.parse(text)]).toEqual([statusCode, body]);
  expect(headers.get('retry-after')).toBe(retryAfterMs === undefined ? null : String(Math.ceil(retryAfterMs / 1_000)));
  const all = JSON.stringify([text, ...headers]);
  for (const secret of [hostname(), `:${process.pid}`, 'order:', id]) expect(all).not.toContain(secret);
}

afterEach(closeAll);

describe.each(PLATFORMS)('LockExceptionFilter on %s', (platform) => {
  it.each(['limited', 'limited-method'])('answers 429 when all permits are taken (%s)', async (path) => {
    const { app, id } = await startHeld(platform, 'read');
    expectTold(await app.get(`${path}/${id}`), TOO_MANY, id);
  });

  it('answers 429 when the permits that a function of the request returns are taken', async () => {
    const { app, id } = await startHeld(platform, 'read');
    expectTold(await app.get(`limited-by-request/${id}?seats=2`), TOO_MANY, id);
    expect((await app.get(`limited-by-request/${id}?seats=3`)).text).toBe('ran');
    expect((await app.get(`limited-by-request/${id}`)).status).toBe(500);
  });

  it('answers 429 when its instance has as many permits as it may', async () => {
    const [app, id] = [await start(platform), freshKey()];
    const held = await app.locks.acquire(`order:${id}`, { mode: 'read', permits: 20, perInstance: 1 });
    expectTold(await app.get(`limited-by-instance/${id}`), TOO_MANY, id);
    await held.release();
    expect((await app.get(`limited-by-instance/${id}`)).text).toBe('ran');
  });

  it('answers 429 when permits stay taken for the whole wait', async () => {
    const { app, id } = await startHeld(platform, 'read');
    expectTold(await app.get(`limited-soon/${id}`), { ...TOO_MANY, code: 'LOCK_WAIT_TIMEOUT' }, id);
  });

  it('answers 429 when too many calls wait', async () => {
    const { app, id } = await startHeld(platform, 'write');
    const leave = new AbortController();
    const { lock } = await enqueue(app, `order:${id}`, { signal: leave.signal });
    expectTold(await app.get(`bounded/${id}`), TOO_MANY, id);
    leave.abort();
    await rejection(lock);
  });

  it('answers 423 when a limited key is held for writing', async () => {
    const { app, id } = await startHeld(platform, 'write');
    expectTold(await app.get(`limited/${id}`), LOCKED, id);
  });

  it('answers with the status of its options, unless the request has one', async () => {
    const { app, id } = await startHeld(platform, 'read', { status: 503, retryAfterMs: 2_500 });
    const unavailable = { ...LOCKED, statusCode: 503, error: 'Service Unavailable', retryAfterMs: 2_500 };
    for (const path of ['busy', 'limited', 'limited-method']) {
      expectTold(await app.get(`${path}/${id}`), unavailable, id);
    }
    expectTold(await app.get(`conflict/${id}`), { ...CONFLICT, retryAfterMs: 2_500 }, id);
  });

  it.each(['query', 'query?q=', 'query?q=1&q=2', `query?q=${'x'.repeat(1_100)}`, 'function'])(
    'answers 400 to a request from which its key cannot be filled: %s',
    async (path) => {
      const app = await start(platform, { status: 503 });
      expectTold(await app.get(path), MISSING, 'xxx');
      expect((await app.get('query?q=1')).text).toBe('ran');
    },
  );

  it('answers 500 to a key that a method cannot fill', async () => {
    const app = await start(platform);
    const { status, text, headers } = await app.get('inner-key');
    expect([status, JSON.parse(text)]).toEqual([500, { statusCode: 500, message: 'Internal server error' }]);
    expect(headers.has('retry-after')).toBe(false);
  });

  it('applies the status of a request only to its own lock, and not to those that its handler acquires', async () => {
    const { app, id } = await startHeld(platform, 'write');
    expectTold(await app.get(`inner-busy/${id}`), LOCKED, id);
  });
});

describe.each(PLATFORMS)('LockInterceptor.for with a `status`, without the filter, on %s', (platform) => {
  it('answers a busy lock with that status, and reveals nothing of the lock', async () => {
    const { app, id } = await startHeld(platform, 'write', null);
    expectTold(await app.get(`conflict/${id}`), CONFLICT, id);
    expectTold(await app.get(`soon-conflict/${id}`), { ...CONFLICT, code: 'LOCK_WAIT_TIMEOUT' }, id);
  });

  it('still fails with the error of the lock, for filters that catch it', async () => {
    const { app, id } = await startHeld(platform, 'write', null);
    await app.get(`conflict/${id}`);
    await app.get(`soon-conflict/${id}`);
    expect(app.failures).toEqual([expect.any(LockBusyError), expect.any(LockWaitTimeoutError)]);
    expect(app.failures).toMatchObject([
      { name: 'LockBusyError', code: 'LOCK_BUSY', key: `order:${id}`, mode: 'write' },
      { name: 'LockWaitTimeoutError', code: 'LOCK_WAIT_TIMEOUT', key: `order:${id}`, holder: expect.any(String) },
    ]);
    for (const { message, cause } of app.failures) {
      expect(message).toBe(BUSY.message);
      expect((cause as Error).message).toContain(`order:${id}`);
    }
  });

  it('reveals nothing of the lock to server-sent events of a busy key', async () => {
    const { app, id } = await startHeld(platform, 'write', null);
    const answer = await app.get(`events/${id}`);
    if (answer.status === 200) expect(answer.text).toMatch(/event: error\n[^]*data: This is in use/);
    else expectTold(answer, CONFLICT, id);
    expect(answer.text).not.toContain(id);
  });

  it('answers a key that cannot be filled with 400, and leaves errors of other locks unchanged', async () => {
    const { app, id } = await startHeld(platform, 'write', null);
    expect((await app.get('query')).status).toBe(400);
    expect((await app.get(`inner-busy/${id}`)).status).toBe(500);
    expect(app.failures).toEqual([expect.any(LockKeyError), expect.any(LockBusyError)]);
    expect(app.failures[1]!.message).toContain(`order:${id}`);
  });
});

describe('a status', () => {
  it.each<[name: string, status: unknown]>([
    ['a success', 200],
    ['a redirection', 399],
    ['no status', 600],
    ['half a status', 423.5],
    ['a text', '423'],
    ['null', null],
    ['NaN', NaN],
  ])('is refused when it is %s', (_name, status) => {
    const options = { status } as RequestLockOptions & LockExceptionFilterOptions;
    const words = 'Expected `status` to be an HTTP status from 400 to 599, got';
    for (const define of [() => new LockExceptionFilter(options), () => LockInterceptor.for(KEY, options)]) {
      expect(define).toThrow(LockConfigurationError);
      expect(define).toThrow(words);
    }
    expect(() => LockInterceptor.for(KEY, options)).toThrow(`LockInterceptor.for('${KEY}'): `);
  });

  it.each<[RequestLockOptions['ifBusy']]>([['skip'], [() => 'busy']])(
    'cannot be combined with `ifBusy: %s`',
    (ifBusy) => {
      const define = () => LockInterceptor.for(KEY, { ifBusy, status: 409 });
      expect(define).toThrow(LockConfigurationError);
      expect(define).toThrow('`status: 409` has no effect beside an `ifBusy` that answers; leave one of them out.');
    },
  );

  it('is accepted when it is an error status', () => {
    for (const status of [400, 423, 429, 599, undefined]) {
      expect(() => [new LockExceptionFilter({ status }), LockInterceptor.for(KEY, { status })]).not.toThrow();
    }
  });
});
