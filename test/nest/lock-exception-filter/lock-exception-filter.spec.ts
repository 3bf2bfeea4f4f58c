import { hostname } from 'node:os';
import {
  Controller,
  Get,
  type INestApplication,
  Injectable,
  Param,
  type Provider,
  Res,
  Sse,
  type Type,
  UseFilters,
  UseInterceptors,
} from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { NEVER, type Observable } from 'rxjs';
import {
  Limited,
  LockBusyError,
  LockConfigurationError,
  Locked,
  LockExceptionFilter,
  type LockExceptionFilterOptions,
  LockInterceptor,
  LockKeyError,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
  type RequestLockOptions,
} from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { disconnect, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';
import { enqueue } from '../../support/waiting/waiters.js';
import { type Answer, open, type Platform, PLATFORMS, type Request, startRequests } from '../support/requests.js';
import { routesOf } from '../support/routes.js';
import { Work } from '../support/transports.js';

/** What express and fastify write to. */
interface Writes {
  readonly raw?: Writes;
  write(text: string): void;
}

const KEY = 'order:<0.params.id>';

/** An error of another copy of the package: another class with the same marker. */
function ofAnotherCopy(name: string, code: string): Error {
  const marker = Symbol.for('nestjs-redis-lock:error');
  return Object.assign(new Error('secret'), { name, code, [marker]: ['LockError', name] });
}

const THROWN: Record<string, () => Error> = {
  busy: () => new LockBusyError('secret', { key: 'secret' }),
  'wait-timeout': () => new LockWaitTimeoutError('secret', { key: 'secret', waitedMs: 5, holder: 'secret' }),
  store: () => new LockStoreError('secret', { cause: new Error('secret') }),
  'refused-by-store': () => new LockStoreError('secret', { retryable: false }),
  shutdown: () => new LockShutdownError('secret'),
  'busy-of-another-copy': () => ofAnotherCopy('LockBusyError', 'LOCK_BUSY'),
  'store-of-another-copy': () => ofAnotherCopy('LockStoreError', 'LOCK_STORE'),
  subclass: () => new (class OrderBusyError extends LockBusyError {})('secret'),
  error: () => new Error('secret'),
};

@Controller()
class Orders {
  constructor(readonly work: Work) {}

  @Get('run/:id')
  @UseInterceptors(LockInterceptor.for(KEY))
  run(): Promise<string> {
    return this.work.run('any');
  }

  @Get('busy/:id')
  @UseInterceptors(LockInterceptor.for(KEY, { ifBusy: 'throw' }))
  busy(): string {
    return 'ran';
  }

  @Get('soon/:id')
  @UseInterceptors(LockInterceptor.for(KEY, { waitMs: 20 }))
  soon(): string {
    return 'ran';
  }

  @Sse('events/:id')
  @UseInterceptors(LockInterceptor.for(KEY, { ifBusy: 'throw' }))
  events(): Observable<never> {
    return NEVER;
  }

  @Get('throw/:name')
  throws(@Param('name') name: string): never {
    throw THROWN[name]!();
  }

  @Get('begun/:name')
  begun(@Param('name') name: string, @Res() response: Writes): never {
    (response.raw ?? response).write('begun');
    throw THROWN[name]!();
  }
}

@UseFilters(LockExceptionFilter)
class ByClass extends Orders {}

@UseFilters(new LockExceptionFilter({ retryAfterMs: 2_500 }))
class ByInstance extends Orders {}

const LIMIT = { mode: 'read', permits: 2, ifBusy: 'throw' } as const;

@Injectable()
class Stock {
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

  @Locked('order:<0>', { ifBusy: 'throw' })
  async busy(_id: string): Promise<string> {
    return 'ran';
  }
}

@Controller()
class StockController {
  constructor(private readonly orders: Stock) {}

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

  @Get('inner-busy/:id')
  @UseInterceptors(LockInterceptor.for('outer', { status: 409 }))
  innerBusy(@Param('id') id: string): Promise<string> {
    return this.orders.busy(id);
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

interface Door {
  readonly controller: Type;
  readonly providers?: Provider[];
  readonly prepare?: (app: INestApplication) => void;
  readonly retryAfterMs: number;
}

const globally = (app: INestApplication): void => void app.useGlobalFilters(new LockExceptionFilter());

const DOORS: Record<string, Door> = {
  useGlobalFilters: { controller: Orders, prepare: globally, retryAfterMs: 1_000 },
  APP_FILTER: {
    controller: Orders,
    providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }],
    retryAfterMs: 1_000,
  },
  '@UseFilters(LockExceptionFilter)': { controller: ByClass, retryAfterMs: 1_000 },
  '@UseFilters(new LockExceptionFilter(options))': { controller: ByInstance, retryAfterMs: 2_500 },
};

const BUSY = { statusCode: 423, error: 'Locked', message: 'This is in use at the moment; try again.' };
const AWAY = { statusCode: 503, error: 'Service Unavailable', message: 'Not available at the moment; try again.' };
const LOCKED = { ...BUSY, code: 'LOCK_BUSY' };
const CONFLICT = { ...LOCKED, statusCode: 409, error: 'Conflict' };
const TOO_MANY = { ...LOCKED, statusCode: 429, error: 'Too Many Requests' };
const TOO_MANY_WAITED = { ...TOO_MANY, code: 'LOCK_WAIT_TIMEOUT' };
const MISSING = {
  statusCode: 400,
  error: 'Bad Request',
  code: 'LOCK_KEY',
  message: 'A required value is missing or invalid.',
};
const EXPECTED: Record<string, object> = {
  busy: LOCKED,
  'wait-timeout': { ...BUSY, code: 'LOCK_WAIT_TIMEOUT' },
  'busy-of-another-copy': LOCKED,
  subclass: LOCKED,
  store: { ...AWAY, code: 'LOCK_STORE' },
  'store-of-another-copy': { ...AWAY, code: 'LOCK_STORE' },
  shutdown: { ...AWAY, code: 'LOCK_SHUTDOWN' },
};

const start = (platform: Platform, { controller, providers = [], prepare = () => undefined }: Door, locks = {}) =>
  startRequests(platform, { controllers: [controller], providers }, { prepare, locks });

const STOCK = { controllers: [StockController, Routes], providers: [Stock] };
/** With the filter, or (`null`) without. */
const startStock = (platform: Platform, options: LockExceptionFilterOptions | null = {}) => {
  const filter = (app: INestApplication): void => void app.useGlobalFilters(new LockExceptionFilter(options ?? {}));
  return startRequests(platform, STOCK, options ? { prepare: filter } : {});
};

/** An app with a key that is held, for writing or by all permits. */
async function startHeld(platform: Platform, mode: 'read' | 'write', options?: LockExceptionFilterOptions | null) {
  const [app, id] = [await startStock(platform, options), freshKey()];
  const count = mode === 'read' ? 2 : 1;
  for (let i = 0; i < count; i += 1) await app.locks.acquire(`order:${id}`, { mode });
  return { app, id };
}

/** Asserts that the response has this body, sends the client the time to retry, and reveals nothing. */
function expectTold(
  { status, text, headers }: Answer,
  body: object,
  retryAfterMs: number | undefined,
  secrets: string[],
): void {
  expect(JSON.parse(text)).toEqual({ ...body, retryAfterMs });
  expect(status).toBe((body as typeof BUSY).statusCode);
  expect(headers.get('retry-after')).toBe(retryAfterMs === undefined ? null : String(Math.ceil(retryAfterMs / 1_000)));
  expect(headers.get('content-type')).toMatch('application/json');
  const all = JSON.stringify([text, ...headers]);
  for (const secret of ['secret', hostname(), `:${process.pid}`, ...secrets]) expect(all).not.toContain(secret);
}

afterEach(closeAll);

describe.each(PLATFORMS)('LockExceptionFilter on %s', (platform) => {
  it.each(Object.keys(DOORS))('(by %s) answers 423 to a request of a busy key', async (name) => {
    const [door, id] = [DOORS[name]!, freshKey()];
    const app = await start(platform, door);
    await app.locks.acquire(`order:${id}`);
    expectTold(await app.get(`busy/${id}`), EXPECTED['busy']!, door.retryAfterMs, [id]);
    expectTold(await app.get(`soon/${id}`), EXPECTED['wait-timeout']!, door.retryAfterMs, [id]);
  });

  it.each(Object.keys(EXPECTED))('answers with Retry-After where a retry makes sense: %s', async (name) => {
    const app = await start(platform, DOORS['useGlobalFilters']!);
    expectTold(await app.get(`throw/${name}`), EXPECTED[name]!, 1_000, []);
  });

  it('answers without Retry-After where Redis would refuse the retry as well', async () => {
    const app = await start(platform, DOORS['useGlobalFilters']!);
    const expected = { ...AWAY, code: 'LOCK_STORE', message: 'Not available at the moment.' };
    expectTold(await app.get('throw/refused-by-store'), expected, undefined, []);
  });

  it('answers 503 while the app shuts down', async () => {
    const app = await start(platform, DOORS['useGlobalFilters']!, { drainMs: 20_000 });
    const first = open(app, `run/${freshKey()}`);
    await eventually(() => app.work.isRunning('any'));
    const closing = app.close();
    try {
      const refused = await eventually(async () => {
        const answer = await app.get(`soon/${freshKey()}`);
        return answer.status === 200 ? null : answer;
      });
      expectTold(refused, EXPECTED['shutdown']!, 1_000, []);
    } finally {
      app.work.finish();
      await Promise.allSettled([first.answer, closing]);
    }
  });

  // Nest sends the headers of events soon, whether or not the lock is acquired by then.
  it('answers 423 to server-sent events of a busy key, unless their headers are sent', async () => {
    const [app, id] = [await start(platform, DOORS['useGlobalFilters']!), freshKey()];
    await app.locks.acquire(`order:${id}`);
    const answer = await app.get(`events/${id}`);
    if (answer.status === 200) expect(answer.text).toMatch(/event: error\n[^]*data: Internal server error\n/);
    else expect([answer.status, JSON.parse(answer.text)]).toEqual([423, { ...EXPECTED['busy'], retryAfterMs: 1_000 }]);
    expect(answer.text).not.toContain(id);
  });

  // Nest also ends it without the filter.
  it.each(['busy', 'store', 'error'])('ends a response that had begun before the error: %s', async (name) => {
    const app = await start(platform, DOORS['useGlobalFilters']!);
    const answer = await app.get(`begun/${name}`, { signal: AbortSignal.timeout(5_000) });
    expect([answer.status, answer.text]).toEqual([200, 'begun']);
    expect((await app.get(`throw/${name}`)).status).toBeGreaterThan(400);
  });
});

it('LockExceptionFilter answers 503 while Redis is away', async () => {
  const proxy = await proxyTo();
  const app = await start('express', DOORS['useGlobalFilters']!, { connection: proxy.url, waitMs: 500 });
  disconnect(proxy);
  const id = freshKey();
  expectTold(await app.get(`soon/${id}`), EXPECTED['store']!, 1_000, [id, `:${proxy.port}`, '127.0.0.1']);
});

describe('the options of LockExceptionFilter', () => {
  it.each<[name: string, options: unknown]>([
    ['a negative duration', { retryAfterMs: -1 }],
    ['a text', { retryAfterMs: '5s' }],
    ['half a millisecond', { retryAfterMs: 0.5 }],
    ['no number', { retryAfterMs: NaN }],
    ['forever', { retryAfterMs: Infinity }],
    ['more than a day', { retryAfterMs: 24 * 3_600_000 + 1 }],
    ['null as a duration', { retryAfterMs: null }],
    ['an unknown option', { retryAfter: 5 }],
    ['null', null],
    ['a number instead of options', 5_000],
  ])('are refused when they are invalid: %s', (_name, options) => {
    expect(() => new LockExceptionFilter(options as LockExceptionFilterOptions)).toThrow(LockConfigurationError);
  });
});

describe.each(PLATFORMS)('the status of LockExceptionFilter on %s', (platform) => {
  it.each<[string, string, 'read' | 'write', object]>([
    ['answers 429 when all permits are taken', 'limited', 'read', TOO_MANY],
    ['answers 429 when all permits are taken', 'limited-method', 'read', TOO_MANY],
    ['answers 429 when permits stay taken for the whole wait', 'limited-soon', 'read', TOO_MANY_WAITED],
    ['answers 423 when a limited key is held for writing', 'limited', 'write', LOCKED],
    ['answers 423, and not with the status of an outer request,', 'inner-busy', 'write', LOCKED],
  ])('%s (%s)', async (_what, path, mode, body) => {
    const { app, id } = await startHeld(platform, mode);
    expectTold(await app.get(`${path}/${id}`), body, 1_000, ['order:', id]);
  });

  it('answers 429 when the permits that a function of the request returns are taken', async () => {
    const { app, id } = await startHeld(platform, 'read');
    expectTold(await app.get(`limited-by-request/${id}?seats=2`), TOO_MANY, 1_000, ['order:', id]);
    expect((await app.get(`limited-by-request/${id}?seats=3`)).text).toBe('ran');
    expect((await app.get(`limited-by-request/${id}`)).status).toBe(500);
  });

  it('answers 429 when its instance has reached its limit of permits', async () => {
    const [app, id] = [await startStock(platform), freshKey()];
    const held = await app.locks.acquire(`order:${id}`, { mode: 'read', permits: 20, perInstance: 1 });
    expectTold(await app.get(`limited-by-instance/${id}`), TOO_MANY, 1_000, ['order:', id]);
    await held.release();
    expect((await app.get(`limited-by-instance/${id}`)).text).toBe('ran');
  });

  it('answers 429 when too many calls wait', async () => {
    const { app, id } = await startHeld(platform, 'write');
    const leave = new AbortController();
    const { lock } = await enqueue(app, `order:${id}`, { signal: leave.signal });
    expectTold(await app.get(`bounded/${id}`), TOO_MANY, 1_000, ['order:', id]);
    leave.abort();
    await rejection(lock);
  });

  it('answers with the status of its options, unless the request has one', async () => {
    const { app, id } = await startHeld(platform, 'read', { status: 503, retryAfterMs: 2_500 });
    const unavailable = { ...LOCKED, statusCode: 503, error: 'Service Unavailable' };
    for (const path of ['busy', 'limited', 'limited-method']) {
      expectTold(await app.get(`${path}/${id}`), unavailable, 2_500, ['order:', id]);
    }
    expectTold(await app.get(`conflict/${id}`), CONFLICT, 2_500, ['order:', id]);
  });

  it.each(['query', 'query?q=', 'query?q=1&q=2', `query?q=${'x'.repeat(1_100)}`, 'function'])(
    'answers 400 to a request from which its key cannot be filled: %s',
    async (path) => {
      const app = await startStock(platform, { status: 503 });
      expectTold(await app.get(path), MISSING, undefined, ['order:', 'xxx']);
      expect((await app.get('query?q=1')).text).toBe('ran');
    },
  );
});

describe.each(PLATFORMS)('LockInterceptor.for with a `status`, without the filter, on %s', (platform) => {
  it('answers a busy lock with that status, and reveals nothing of the lock', async () => {
    const { app, id } = await startHeld(platform, 'write', null);
    expectTold(await app.get(`conflict/${id}`), CONFLICT, 1_000, ['order:', id]);
    expectTold(await app.get(`soon-conflict/${id}`), { ...CONFLICT, code: 'LOCK_WAIT_TIMEOUT' }, 1_000, ['order:', id]);
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
      expect(define).toThrow('`status: 409` has no effect with an `ifBusy` that answers; leave one of them out.');
    },
  );
});
