import {
  type ArgumentsHost,
  type CanActivate,
  Controller,
  type DynamicModule,
  type ExecutionContext,
  Get,
  type INestApplication,
  Injectable,
  Logger,
  Module,
  Param,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { type Redis } from 'ioredis';
import { Test } from '@nestjs/testing';
import { Query, Resolver } from '@nestjs/graphql';
import { Interval } from '@nestjs/schedule';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import {
  currentLock,
  LockBusyError,
  LockConfigurationError,
  LockInterceptor,
  LockKeyError,
  LockLostError,
  RedisLockModule,
  type RequestLockOptions,
} from '../../../lib/index.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { routesOf } from '../support/routes.js';
import { PLATFORMS, type Request, requestOf, type Response, startRequests } from '../support/requests.js';
import { eventually } from '../../support/waiting/eventually.js';
import { Work } from '../support/transports.js';
import { getLockInterceptorToken } from '../../../lib/redis-lock.tokens.js';
import { redisUrl } from '../../support/topologies/topology.js';

afterEach(closeAll);

class SignIn implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = requestOf(context);
    request.user = { id: request.headers['x-user'] };
    return true;
  }
}

const ofRequest = ({ params }: Request): string => `order:${params['id']}`;
const ofQuery = LockInterceptor.for('order:<0.query.q>');
const nothing = (): string => '';

@Controller()
class Orders {
  @Get('user')
  @UseGuards(SignIn)
  @UseInterceptors(LockInterceptor.for('order:<0.user.id>'))
  user(): string {
    return currentLock().key;
  }

  @Get('several/:from/:to')
  @UseInterceptors(LockInterceptor.for(['acct:<0.params.from>', 'acct:<0.params.to>']))
  several(): readonly string[] {
    return [currentLock(`acct:a`).key, currentLock(`acct:b`).key];
  }
}

const Routes = routesOf(
  {
    'param/:id': LockInterceptor.for('order:<0.params.id>'),
    query: ofQuery,
    header: LockInterceptor.for('order:<0.headers.x-id>'),
    'function/:id': LockInterceptor.for(ofRequest),
    fixed: LockInterceptor.for('order:7'),
    'listed/:ids': LockInterceptor.for(({ params }: Request) => params['ids']!.split(',').map((id) => `acct:${id}`)),
    'no-key': LockInterceptor.for(nothing),
    'too-long': LockInterceptor.for(() => 'x'.repeat(1_100)),
  },
  () => currentLock().key,
);

const FROM: Record<string, [path: string, headers?: Record<string, string>]> = {
  'a part of the path': ['param/7'],
  'the query': ['query?q=7'],
  'a header with a dash': ['header', { 'X-Id': '7' }],
  'the user that a guard has set': ['user', { 'x-user': '7' }],
  'a key function': ['function/7'],
  'a text without placeholders': ['fixed'],
};

const MISSING: Record<string, [path: string, text: string]> = {
  'a missing query': [
    'query',
    "LockInterceptor.for('order:<0.query.q>'): key template 'order:<0.query.q>': <0.query.q> is undefined",
  ],
  'an empty query': ['query?q=', '<0.query.q> is an empty string'],
  'a query that is given twice': ['query?q=1&q=2', '<0.query.q> is an object (Array)'],
  'a missing header': ['header', '<0.headers.x-id> is undefined'],
  'a user without an id': ['user', '<0.user.id> is undefined'],
  'a key function without a key': ['no-key', 'the key function returned an empty string'],
  'a key that is too long': ['too-long', '1024'],
};

const scriptsRun = async (admin: Redis): Promise<number> =>
  Number(/cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1] ?? 0);

describe.each(PLATFORMS)('the key of a request on %s', (platform) => {
  it.each(Object.keys(FROM))('comes from %s', async (name) => {
    const app = await startRequests(platform, { controllers: [Orders, Routes] });
    const [path, headers = {}] = FROM[name]!;
    expect(await app.get(path, { headers })).toMatchObject({ status: 200, text: 'order:7' });
    expect(app.acquired).toEqual(['order:7']);
  });

  it('differs for different parts of a path', async () => {
    const app = await startRequests(platform, { controllers: [Orders, Routes] });
    expect((await app.get('param/a%3Ab')).text).toBe('order:a:b');
    expect((await app.get('param/a%253Ab')).text).toBe('order:a%3Ab');
  });

  it('may be several keys, which are all held', async () => {
    const app = await startRequests(platform, { controllers: [Orders, Routes] });
    const taken = await app.locks.acquire('acct:b');
    const answer = app.get('several/a/b');
    await untilWaiting(app, 'acct:b');
    await taken.release();
    expect(JSON.parse((await answer).text)).toHaveLength(2);
    expect((await app.get('listed/a,b')).text).toBe('acct:a, acct:b');
    expect(await app.locks.isLocked('acct:a')).toBe(false);
  });

  it.each(Object.keys(MISSING))('makes the request fail with LockKeyError for %s, and sends nothing', async (name) => {
    const [{ admin, url }, [path, text]] = [await ownRedis(), MISSING[name]!];
    const app = await startRequests(platform, { controllers: [Orders, Routes] }, { locks: { connection: url } });
    await app.get('param/7');
    const before = await scriptsRun(admin);
    expect(before).toBeGreaterThan(0);
    const answer = await app.get(path);
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.text)).toMatchObject({ statusCode: 400, error: 'Bad Request', code: 'LOCK_KEY' });
    expect(answer.text).not.toContain(text);
    expect(app.failures).toEqual([expect.any(LockKeyError)]);
    expect((app.failures[0]!.cause as Error).message).toContain(text);
    expect(await scriptsRun(admin)).toBe(before);
  });
});

/** As it comes in a path: a separate line in the log, in red. */
const FORGED = '%0A[Nest]%20ERROR%1B[31m%E2%80%A8forged';
const SHOWN = '\\n[Nest] ERROR\\u001b[31m\\u2028forged';

@Controller()
class Runs {
  constructor(private readonly work: Work) {}

  @Get('run/:id')
  @UseInterceptors(LockInterceptor.for('order:<0.params.id>', { ifBusy: 'throw' }))
  run(@Param('id') id: string): Promise<string> {
    return this.work.run(id);
  }
}

const logged = jest.spyOn(Logger.prototype, 'error');
afterEach(() => void logged.mockClear());

describe.each(PLATFORMS)('a path with control characters that fills a key (%s)', (platform) => {
  it('is escaped in errors and the log, and unchanged in Redis', async () => {
    const work = new Work();
    const app = await startRequests(platform, { controllers: [Runs] }, { work });
    const name = freshKey();
    const key = `order:${name}${decodeURIComponent(FORGED)}`;
    const lost = app.locks.withLock(key, async ({ signal }) => {
      expect((await app.get(`run/${name}${FORGED}`)).status).toBe(500);
      await app.locks.forceRelease(key);
      await eventually(() => signal.aborted);
    });
    await expect(lost).rejects.toThrow(LockLostError);
    const errors = [...app.failures, await lost.catch((error: Error) => error)] as Error[];
    expect(errors).toMatchObject([{ key }, { key }]);
    expect(errors[0]).toBeInstanceOf(LockBusyError);
    for (const { message } of errors) expect(message).toContain(`"order:${name}${SHOWN}"`);
    const lines = logged.mock.calls.map(([line]) => String(line)).filter((line) => line.includes(name));
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expect(line).toContain(`"order:${name}${SHOWN}"`);
  });
});

describe.each([
  ['express', 'files/*path', 'is an object (Array)'],
  ['fastify', 'files/*', 'is undefined'],
] as const)('a template over a wildcard of a path on %s', (platform, route, found) => {
  it('is reported to the developer, once, and answered with 400', async () => {
    const warned = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const Files = routesOf({ [route]: LockInterceptor.for('file:<0.params.path>'), 'param/:id': ofQuery });
    const app = await startRequests(platform, { controllers: [Files] });
    const paths = ['files/a/b', 'files/c/d', 'param/7', 'param/8'];
    const statuses = await Promise.all(paths.map(async (path) => (await app.get(path)).status));
    expect(statuses).toEqual([400, 400, 400, 400]);
    const lines = warned.mock.calls.map(([line]) => String(line)).filter((line) => line.includes('400'));
    warned.mockRestore();
    expect(lines).toEqual([expect.stringMatching(/^Routes\.files: .*LockInterceptor\.for\(\({ params }\) => lockKey/)]);
    expect(lines[0]).toContain(`<0.params.path> of 'file:<0.params.path>' ${found}`);
  });
});

const KEY = 'order:<0.params.id>';

/** Options that are read from the prototype. */
class Getters {
  readonly #values: RequestLockOptions;

  constructor(values: RequestLockOptions) {
    this.#values = values;
  }

  get waitMs(): number | undefined {
    return this.#values.waitMs;
  }

  get status(): number | undefined {
    return this.#values.status;
  }
}

/** Each is refused with a text that contains these parts. */
const OPTIONS: Record<string, [options: object, words: string]> = {
  oncePer: [{ oncePer: 'fire' }, '`oncePer` is for scheduled jobs; use it with @Locked'],
  job: [{ job: 'Jobs.run' }, '`job` is for scheduled jobs'],
  spreadMs: [{ spreadMs: 5 }, '`spreadMs` is for scheduled jobs'],
  rerunOnLoss: [{ rerunOnLoss: true }, '`rerunOnLoss` is for scheduled jobs'],
  'an unknown mode': [{ mode: 'shared' }, "Expected `mode` to be 'write' or 'read'"],
  'permits without the mode read': [{ permits: 2 }, '`permits`'],
  'permits for an instance without permits': [{ mode: 'read', perInstance: 2 }, '`perInstance`'],
  'an unknown onUnavailable': [{ onUnavailable: 'ignore' }, 'Expected `onUnavailable`'],
  'a connection that is not a name': [{ connection: 5 }, 'Expected `connection`'],
  'an unknown option': [{ wait: 5 }, 'Unknown lock option `wait`'],
  'a wrong option of a class with getters': [new Getters({ waitMs: -1 }), 'Expected `waitMs`'],
  'a wrong status of a class with getters': [new Getters({ status: 200 }), 'Expected `status`'],
};

/** Values that are not an object of options. */
const NO_OPTIONS: Record<string, unknown> = { null: null, 'a number': 5, 'a text': 'skip', 'a function': () => 1 };

const KEYS: Record<string, [key: unknown, words: string]> = {
  'an empty template': ['', 'the key template is an empty string'],
  'a placeholder without an index': ['order:<id>', "'<id>' is not a placeholder"],
  'an empty list': [[], 'the list of keys is empty'],
  nothing: [undefined, 'the key template is undefined'],
};

const define = (key: unknown, options?: unknown): unknown =>
  LockInterceptor.for(key as string, options as RequestLockOptions);

const answer = (host: ArgumentsHost, text: string): void =>
  void host.switchToHttp().getResponse<Response>().status(500).send(text);

describe('LockInterceptor.for refuses, when the class is defined,', () => {
  it.each(Object.keys(OPTIONS))('invalid options: %s', (name) => {
    const [options, words] = OPTIONS[name]!;
    expect(() => define(KEY, options)).toThrow(LockConfigurationError);
    expect(() => define(KEY, options)).toThrow(`LockInterceptor.for('${KEY}'): `);
    expect(() => define(KEY, options)).toThrow(words);
  });

  it.each(Object.keys(NO_OPTIONS))('%s instead of its options', (name) => {
    expect(() => define(KEY, NO_OPTIONS[name])).toThrow(LockConfigurationError);
  });

  it.each(Object.keys(KEYS))('an invalid key: %s', (name) => {
    const [key, words] = KEYS[name]!;
    expect(() => define(key)).toThrow(LockKeyError);
    expect(() => define(key)).toThrow(words);
  });
});

describe.each(PLATFORMS)('LockInterceptor without a key on %s', (platform) => {
  let ran = 0;

  @Controller()
  class Orders {
    @Get(':id')
    @UseInterceptors(LockInterceptor)
    run(): string {
      return 'ran';
    }
  }

  @Controller()
  class Unlocked {
    @Get(':id')
    run(): string {
      ran += 1;
      return 'ran';
    }
  }

  it('on a handler prevents the start', async () => {
    await expect(startRequests(platform, { controllers: [Orders] })).rejects.toThrow(/LockInterceptor/);
  });

  it('for all handlers runs none of them, and reports what to write instead', async () => {
    const prepare = (app: INestApplication): void => {
      app.useGlobalInterceptors(app.get<LockInterceptor>(getLockInterceptorToken(undefined)));
      app.useGlobalFilters({ catch: (error: Error, host: ArgumentsHost) => answer(host, error.message) });
    };
    const app = await startRequests(platform, { controllers: [Unlocked] }, { prepare });
    const { status, text } = await app.get(freshKey());
    expect([status, text]).toEqual([500, expect.stringContaining("LockInterceptor.for('<key>')")]);
    expect(ran).toBe(0);
    expect(app.acquired).toEqual([]);
  });
});

describe('LockInterceptor.for without a RedisLockModule', () => {
  @Controller()
  class Orders {
    @Get(':id')
    @UseInterceptors(LockInterceptor.for(KEY))
    run(): string {
      return 'ran';
    }
  }

  @Module({ controllers: [Orders] })
  class WithoutLocks {}

  it('prevents the start', async () => {
    await expect(Test.createTestingModule({ imports: [WithoutLocks] }).compile()).rejects.toThrow(/LockInterceptor/);
  });
});

const ByKey = LockInterceptor.for('k');

@Injectable()
class Jobs {
  @Interval(60_000)
  @UseInterceptors(ByKey)
  async run(): Promise<void> {}
}

@Injectable()
@UseInterceptors(ByKey)
class Everything {
  async run(): Promise<void> {}
}

@WebSocketGateway()
class Gateway {
  @SubscribeMessage('run')
  @UseInterceptors(ByKey)
  async run(): Promise<void> {}
}

@Resolver()
@UseInterceptors(ByKey)
class Items {
  @Query(() => String)
  async item(): Promise<string> {
    return '';
  }
}

async function warningsOf(provider: new () => object, imports: DynamicModule[] = []): Promise<string[]> {
  const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
  const others = [
    { provide: 'other', useValue: {} },
    { provide: 'made', useFactory: () => 1 },
  ];
  await startApp({}, { imports, providers: [provider, ...others] });
  return warn.mock.calls.map(([text]) => String(text));
}

describe('LockInterceptor.for where Nest calls no interceptors', () => {
  afterEach(() => void jest.restoreAllMocks());

  it.each([
    ['a method', Jobs, 'Jobs.run'],
    ['a class', Everything, 'Everything'],
  ])('is reported when the app starts, because the handler would run unlocked: %s', async (_what, provider, place) => {
    expect(await warningsOf(provider)).toEqual([expect.stringMatching(`^${place} has LockInterceptor\\.for\\(\\)`)]);
  });

  it('is reported once, by the module of the lock', async () => {
    const named = RedisLockModule.forRoot({ name: 'jobs', connection: redisUrl() });
    expect(await warningsOf(Jobs, [named])).toHaveLength(1);
  });

  it.each([Gateway, Items])('is not reported where Nest does: %o', async (provider) => {
    expect(await warningsOf(provider)).toEqual([]);
  });
});
