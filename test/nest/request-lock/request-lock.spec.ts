import {
  Controller,
  Get,
  Injectable,
  type INestApplication,
  Param,
  Scope,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { currentLock, Locked, LockInterceptor, RedisLockModule } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree, untilWaiting } from '../../support/waiting/waiters.js';
import { PLATFORMS, startRequests, startTwoRequests } from '../support/requests.js';
import { routesOf } from '../support/routes.js';
import { expectOneAtATime, Work } from '../support/transports.js';
import { redisUrl } from '../../support/topologies/topology.js';

const ById = LockInterceptor.for('order:<0.params.id>');

@Injectable()
class Ledger {
  async book(): Promise<string> {
    return currentLock().key;
  }

  @Locked('order:<0>')
  async bookAgain(_id: string): Promise<string> {
    return `${currentLock().key} again`;
  }
}

const run = (id: string, work: Work): Promise<string> => work.run(id);

const Routes = routesOf({
  'run/:id': [ById, run],
  'beside/:id': [ById, run],
  'read/:id': [LockInterceptor.for('order:<0.params.id>', { mode: 'read' }), run],
  'two/:id': [LockInterceptor.for('order:<0.params.id>', { mode: 'read', permits: 2 }), run],
  'twice/:id': [[ById, LockInterceptor.for('order:<0.params.id>', { waitMs: 0 })], () => currentLock().key],
  'lax/:id': [[ById, LockInterceptor.for('order:<0.params.id>', { reentrant: false })], () => currentLock().key],
});

@Controller()
class Orders {
  constructor(private readonly ledger: Ledger) {}

  @Get('nested/:id')
  @UseInterceptors(ById)
  async nested(@Param('id') id: string): Promise<readonly string[]> {
    return [currentLock().key, await this.ledger.book(), await this.ledger.bookAgain(id)];
  }
}

@Controller()
@UseInterceptors(ById)
class Whole {
  constructor(private readonly work: Work) {}

  @Get('run/:id')
  run(@Param('id') id: string): Promise<string> {
    return this.work.run(id);
  }
}

@Controller({ scope: Scope.REQUEST })
class PerRequest {
  constructor(private readonly work: Work) {}

  @Get('run/:id')
  @UseInterceptors(ById)
  run(@Param('id') id: string): Promise<string> {
    return this.work.run(id);
  }
}

const Bare = routesOf({ 'run/:id': [[], run] });

const DOORS: Record<string, { controller: Type; providers?: object[]; prepare?: (app: INestApplication) => void }> = {
  'a handler': { controller: Routes },
  'a controller': { controller: Whole },
  'a request-scoped controller': { controller: PerRequest },
  APP_INTERCEPTOR: { controller: Bare, providers: [{ provide: APP_INTERCEPTOR, useClass: ById }] },
  useGlobalInterceptors: {
    controller: Bare,
    providers: [ById],
    prepare: (app) => app.useGlobalInterceptors(app.get(ById)),
  },
};

const HANDLERS = { controllers: [Orders, Routes], providers: [Ledger] };

afterEach(closeAll);

describe.each(PLATFORMS)('LockInterceptor.for on %s', (platform) => {
  it.each(Object.keys(DOORS))('runs one request per key at a time on two instances at %s', async (door) => {
    const { controller, providers = [], prepare } = DOORS[door]!;
    const metadata = { controllers: [controller], providers: [Ledger, ...(providers as Type[])] };
    await expectOneAtATime(await startTwoRequests(platform, metadata, prepare ? { prepare } : {}), ({ get }, id) =>
      get(`run/${id}`),
    );
  });

  it('gives one lock to all handlers that it is put on', async () => {
    const [app, id] = [await startRequests(platform, HANDLERS), freshKey()];
    const answers = [app.get(`run/${id}`)];
    await eventually(() => app.work.isRunning(id));
    answers.push(app.get(`beside/${id}`));
    await untilWaiting(app, `order:${id}`);
    await app.work.untilStarted(id);
    expect(app.work.started(id)).toBe(1);
    app.work.finish();
    for (const { text } of await Promise.all(answers)) expect(text).toBe(`order:${id}`);
    expect(app.work.overlapped(id)).toBe(false);
  });

  it.each([
    ['readers of a key', 'read', 'run'],
    ['as many requests as there are permits', 'two', 'two'],
  ])('lets %s run side by side, and nobody beside them', async (_who, path, other) => {
    const [[a, b], id] = [await startTwoRequests(platform, HANDLERS), freshKey()];
    const first = [a.get(`${path}/${id}`), b.get(`${path}/${id}`)];
    await eventually(() => a.work.started(id) === 2);
    const next = b.get(`${other}/${id}`);
    await untilWaiting(a, `order:${id}`);
    await a.work.untilStarted(id, 2);
    expect(a.work.started(id)).toBe(2);
    a.work.finish();
    for (const { status } of await Promise.all([...first, next])) expect(status).toBe(200);
    expect(a.work.started(id)).toBe(3);
  });

  it('is the current lock of the handler and of the services that it calls, which re-enter it', async () => {
    const [app, id] = [await startRequests(platform, HANDLERS), freshKey()];
    const reentered: string[] = [];
    app.locks.events.on('reentered', ({ key }) => reentered.push(key));
    const key = `order:${id}`;
    expect(JSON.parse((await app.get(`nested/${id}`)).text)).toEqual([key, key, `${key} again`]);
    expect(app.acquired).toEqual([key]);
    expect(reentered).toEqual([key]);
    expect(await app.locks.isLocked(key)).toBe(false);
  });

  it('is re-entered by another one with the same key, unless that has reentrant: false', async () => {
    const [app, id] = [await startRequests(platform, HANDLERS), freshKey()];
    expect(await app.get(`twice/${id}`)).toMatchObject({ status: 200, text: `order:${id}` });
    expect(app.acquired).toEqual([`order:${id}`]);
    expect((await app.get(`lax/${id}`)).status).toBe(500);
    expect(app.failures).toMatchObject([{ code: 'LOCK_REENTRY' }]);
    await untilFree(app, `order:${id}`);
  });

  it('names its handler in its events', async () => {
    const [app, id] = [await startRequests(platform, HANDLERS), freshKey()];
    const told: unknown[] = [];
    app.locks.events.on('acquired', ({ where, template }) => told.push({ where, template }));
    app.work.finish();
    await app.get(`run/${id}`);
    await app.get(`beside/${id}`);
    const template = 'order:<0.params.id>';
    expect(told).toEqual([
      { where: 'Routes.run', template },
      { where: 'Routes.beside', template },
    ]);
  });
});

describe.each(PLATFORMS)('LockInterceptor.for with a connection on %s', (platform) => {
  const Named = routesOf(
    { ':id': LockInterceptor.for('order:<0.params.id>', { connection: 'other' }) },
    () => currentLock().key,
  );

  it('locks on that connection', async () => {
    const [id, keyPrefix] = [freshKey(), `${freshKey('other')}:`];
    const other = RedisLockModule.forRoot({ name: 'other', connection: redisUrl(), keyPrefix });
    const app = await startRequests(platform, { imports: [other], controllers: [Named] });
    const beside = await startRequests(platform, {}, { locks: { keyPrefix } });
    const lock = await beside.locks.acquire(`order:${id}`);
    const answer = app.get(id);
    await untilWaiting(beside, `order:${id}`);
    await lock.release();
    expect((await answer).text).toBe(`order:${id}`);
  });

  it('does not start without that connection', async () => {
    const start = startRequests(platform, { controllers: [Named] });
    await expect(start).rejects.toThrow(/LockInterceptor|other/);
  });
});
