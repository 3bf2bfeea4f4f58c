import { type DynamicModule, Injectable, Logger, UseInterceptors } from '@nestjs/common';
import { Query, Resolver } from '@nestjs/graphql';
import { Interval } from '@nestjs/schedule';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { jest } from '@jest/globals';
import { LockInterceptor, RedisLockModule } from '../../../lib/index.js';
import { closeAll, startApp } from '../../support/apps/lock-app.js';
import { redisUrl } from '../../support/topologies/topology.js';

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

afterEach(async () => {
  await closeAll();
  jest.restoreAllMocks();
});

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
