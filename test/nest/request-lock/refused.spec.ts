import {
  type ArgumentsHost,
  Controller,
  type DynamicModule,
  Get,
  type INestApplication,
  Injectable,
  Logger,
  Module,
  UseInterceptors,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Query, Resolver } from '@nestjs/graphql';
import { Interval } from '@nestjs/schedule';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import {
  LockConfigurationError,
  LockInterceptor,
  LockKeyError,
  RedisLockModule,
  type RequestLockOptions,
} from '../../../lib/index.js';
import { getLockInterceptorToken } from '../../../lib/redis-lock.tokens.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { PLATFORMS, type Response, startRequests } from '../support/requests.js';
import { redisUrl } from '../../support/topologies/topology.js';

const KEY = 'order:<0.params.id>';

/** Each is refused with a text that has these words. */
const OPTIONS: Record<string, [options: object, words: string]> = {
  oncePer: [{ oncePer: 'fire' }, '`oncePer` is for scheduled jobs; use it with @Locked'],
  job: [{ job: 'Jobs.run' }, '`job` is for scheduled jobs'],
  spreadMs: [{ spreadMs: 5 }, '`spreadMs` is for scheduled jobs'],
  rerunOnLoss: [{ rerunOnLoss: true }, '`rerunOnLoss` is for scheduled jobs'],
  'an unknown mode': [{ mode: 'shared' }, "Expected `mode` to be 'write' or 'read'"],
  'permits without the mode read': [{ permits: 2 }, '`permits`'],
  'no permits': [{ mode: 'read', permits: 0 }, '`permits`'],
  'permits for an instance without permits': [{ mode: 'read', perInstance: 2 }, '`perInstance`'],
  'a lease as a text': [{ leaseMs: '5s' }, 'Expected `leaseMs`'],
  'a negative waitMs': [{ waitMs: -1 }, 'Expected `waitMs`'],
  'waitMs beside a skip': [{ waitMs: 100, ifBusy: 'skip' }, '`waitMs: 100` has no effect'],
  'an unknown ifBusy': [{ ifBusy: 'queue' }, 'Expected `ifBusy`'],
  'an unknown onUnavailable': [{ onUnavailable: 'ignore' }, 'Expected `onUnavailable`'],
  'an empty connection': [{ connection: '' }, 'Expected `connection`'],
  'a connection that is no name': [{ connection: 5 }, 'Expected `connection`'],
  'reentrant as a text': [{ reentrant: 'no' }, 'Expected `reentrant`'],
  'a signal that is none': [{ signal: {} }, 'Expected `signal`'],
  'an unknown option': [{ wait: 5 }, 'Unknown lock option `wait`'],
};

/** What is no object of options at all. */
const NO_OPTIONS: Record<string, unknown> = { null: null, 'a number': 5, 'a text': 'skip', 'a function': () => 1 };

const KEYS: Record<string, [key: unknown, words: string]> = {
  'an empty template': ['', 'the key template is an empty string'],
  'a placeholder without an index': ['order:<id>', "'<id>' is no placeholder"],
  'a placeholder that is not closed': ['order:<0.params.id', 'is not closed'],
  'two placeholders that nothing separates': ['<0.params.a><0.params.b>', 'nothing separates'],
  'an empty list': [[], 'the list of keys is empty'],
  'a number': [5, 'the key template is'],
  nothing: [undefined, 'the key template is undefined'],
};

const define = (key: unknown, options?: unknown): unknown =>
  LockInterceptor.for(key as string, options as RequestLockOptions);

const answer = (host: ArgumentsHost, text: string): void =>
  void host.switchToHttp().getResponse<Response>().status(500).send(text);

afterEach(closeAll);

describe('LockInterceptor.for refuses, when the class is defined,', () => {
  it.each(Object.keys(OPTIONS))('invalid options: %s', (name) => {
    const [options, words] = OPTIONS[name]!;
    expect(() => define(KEY, options)).toThrow(LockConfigurationError);
    expect(() => define(KEY, options)).toThrow(`LockInterceptor.for('${KEY}'): `);
    expect(() => define(KEY, options)).toThrow(words);
  });

  it.each(Object.keys(NO_OPTIONS))('%s in place of its options', (name) => {
    expect(() => define(KEY, NO_OPTIONS[name])).toThrow(LockConfigurationError);
  });

  it.each(Object.keys(KEYS))('an invalid key: %s', (name) => {
    const [key, words] = KEYS[name]!;
    expect(() => define(key)).toThrow(LockKeyError);
    expect(() => define(key)).toThrow(words);
  });

  it('nothing that is valid', () => {
    const options = { mode: 'read', permits: 2, leaseMs: 500, waitMs: 0, owner: 'me', connection: 'other' } as const;
    expect(() => define(KEY, options)).not.toThrow();
    expect(() => define([KEY, 'all'], { ifBusy: () => 1, reentrant: false, onUnavailable: 'skip' })).not.toThrow();
    expect(() => define(() => 'order', undefined)).not.toThrow();
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

  it('for all handlers runs none of them, and says what to write instead', async () => {
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
  ])('is reported when the app starts, since the handler would run unlocked: %s', async (_what, provider, place) => {
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
