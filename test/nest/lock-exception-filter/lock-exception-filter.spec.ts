import { hostname } from 'node:os';
import {
  ConflictException,
  Controller,
  Get,
  type INestApplication,
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
  LockBusyError,
  LockConfigurationError,
  LockExceptionFilter,
  type LockExceptionFilterOptions,
  LockInterceptor,
  LockLostError,
  LockReentryError,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { disconnect, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { type Answer, open, type Platform, PLATFORMS, startRequests } from '../support/requests.js';
import { Work } from '../support/transports.js';

/** What express and fastify write to. */
interface Writes {
  readonly raw?: Writes;
  write(text: string): void;
}

const KEY = 'order:<0.params.id>';

/** An error as another copy of the package makes it: of another class, with the same marker. */
function ofAnotherCopy(name: string, code: string): Error {
  const marker = Symbol.for('nestjs-redis-lock:error');
  return Object.assign(new Error('secret'), { name, code, [marker]: ['LockError', name] });
}

const THROWN: Record<string, () => Error> = {
  busy: () => new LockBusyError('secret', { key: 'secret' }),
  'wait-timeout': () => new LockWaitTimeoutError('secret', { key: 'secret', waitedMs: 5, holder: 'secret' }),
  store: () => new LockStoreError('secret', { cause: new Error('secret') }),
  shutdown: () => new LockShutdownError('secret'),
  'busy-of-another-copy': () => ofAnotherCopy('LockBusyError', 'LOCK_BUSY'),
  'store-of-another-copy': () => ofAnotherCopy('LockStoreError', 'LOCK_STORE'),
  subclass: () => new (class OrderBusyError extends LockBusyError {})('secret'),
  lost: () => new LockLostError('secret', { reason: 'expired' }),
  reentry: () => new LockReentryError('secret'),
  error: () => new Error('secret'),
  conflict: () => new ConflictException({ reason: 'sold out' }),
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
const EXPECTED: Record<string, object> = {
  busy: { ...BUSY, code: 'LOCK_BUSY' },
  'wait-timeout': { ...BUSY, code: 'LOCK_WAIT_TIMEOUT' },
  'busy-of-another-copy': { ...BUSY, code: 'LOCK_BUSY' },
  subclass: { ...BUSY, code: 'LOCK_BUSY' },
  store: { ...AWAY, code: 'LOCK_STORE' },
  'store-of-another-copy': { ...AWAY, code: 'LOCK_STORE' },
  shutdown: { ...AWAY, code: 'LOCK_SHUTDOWN' },
};

const start = (platform: Platform, { controller, providers = [], prepare = () => undefined }: Door, locks = {}) =>
  startRequests(platform, { controllers: [controller], providers }, { prepare, locks });

/** Asserts that the response tells the client to retry, and nothing else. */
function expectTold({ status, text, headers }: Answer, body: object, retryAfterMs: number, secrets: string[]): void {
  expect(JSON.parse(text)).toEqual({ ...body, retryAfterMs });
  expect(status).toBe((body as typeof BUSY).statusCode);
  expect(headers.get('retry-after')).toBe(String(Math.ceil(retryAfterMs / 1_000)));
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

  it.each(['lost', 'reentry', 'error'])('leaves other errors unchanged: %s', async (name) => {
    const app = await start(platform, DOORS['useGlobalFilters']!);
    const { status, text, headers } = await app.get(`throw/${name}`);
    expect([status, JSON.parse(text)]).toEqual([500, { statusCode: 500, message: 'Internal server error' }]);
    expect(headers.has('retry-after')).toBe(false);
  });

  it('leaves an HttpException unchanged', async () => {
    const app = await start(platform, DOORS['useGlobalFilters']!);
    const { status, text } = await app.get('throw/conflict');
    expect([status, JSON.parse(text)]).toEqual([409, { reason: 'sold out' }]);
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

  // Without the filter Nest ends it, too.
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
    ['for ever', { retryAfterMs: Infinity }],
    ['more than a day', { retryAfterMs: 24 * 3_600_000 + 1 }],
    ['null as a duration', { retryAfterMs: null }],
    ['an unknown option', { retryAfter: 5 }],
    ['null', null],
    ['a number in the place of options', 5_000],
  ])('are refused when they are invalid: %s', (_name, options) => {
    expect(() => new LockExceptionFilter(options as LockExceptionFilterOptions)).toThrow(LockConfigurationError);
  });

  it('are optional, and may ask for an immediate retry', () => {
    for (const options of [undefined, {}, { retryAfterMs: undefined }, { retryAfterMs: 0 }]) {
      expect(() => new LockExceptionFilter(options)).not.toThrow();
    }
  });
});
