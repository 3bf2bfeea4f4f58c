import {
  type CallHandler,
  type CanActivate,
  Controller,
  type ExecutionContext,
  Get,
  type INestApplication,
  Injectable,
  type NestInterceptor,
  Param,
  type PipeTransform,
  Scope,
  type Type,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { map, mergeMap, type Observable, Subject, takeUntil, tap, throwIfEmpty, TimeoutError } from 'rxjs';
import { currentLock, Locked, LockInterceptor, LockNotHeldError, RedisLockModule } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree, untilWaiting } from '../../support/waiting/waiters.js';
import { PLATFORMS, requestOf, startRequests, startTwoRequests } from '../support/requests.js';
import { routesOf } from '../support/routes.js';
import { expectOneAtATime, Work } from '../support/transports.js';
import { redisUrl } from '../../support/topologies/topology.js';

afterEach(closeAll);

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

describe.each(PLATFORMS)('LockInterceptor.for on %s', (platform) => {
  it.each(Object.keys(DOORS))('runs one request per key at a time on two instances at %s', async (door) => {
    const { controller, providers = [], prepare } = DOORS[door]!;
    const metadata = { controllers: [controller], providers: [Ledger, ...(providers as Type[])] };
    await expectOneAtATime(await startTwoRequests(platform, metadata, prepare ? { prepare } : {}), ({ get }, id) =>
      get(`run/${id}`),
    );
  });

  it.each([
    ['readers of a key', 'read', 'run'],
    ['one request per permit', 'two', 'two'],
  ])('lets %s run concurrently, and no other request', async (_who, path, other) => {
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

/** The key of the lock under which this runs. */
function here(): string {
  try {
    return currentLock().key;
  } catch (error) {
    if (error instanceof LockNotHeldError) return 'no lock';
    throw error;
  }
}

const seen: string[] = [];
const note = (who: string): unknown => seen.push(`${who}: ${here()}`);

class Refuses implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    note('guard');
    return requestOf(context).query['refused'] === undefined;
  }
}

class Pipe implements PipeTransform<string, Promise<string>> {
  async transform(value: string): Promise<string> {
    note('pipe');
    return value;
  }
}

/** Maps what the handler gives, as a serialiser does. */
@Injectable()
class Maps implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    note('before');
    return next.handle().pipe(map((value) => `${String(value)}, mapped under ${here()}`));
  }
}

/** Maps by a promise, which the work of the test settles. */
const mapsLater = (operator: typeof map): Type<NestInterceptor> => {
  @Injectable()
  class MapsLater implements NestInterceptor {
    constructor(private readonly work: Work) {}

    intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
      const id = requestOf(context).params['id']!;
      const later = async (value: unknown) => `${String(value)}, later under ${await this.work.run(id)}`;
      return next.handle().pipe(operator(later));
    }
  }
  return MapsLater;
};

/** Notes when what is inside has ended. */
@Injectable()
class Ends implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(tap({ complete: () => note('end') }));
  }
}

/** Gives up when the test aborts it. */
@Injectable()
class Impatient implements NestInterceptor {
  static readonly givesUp = new Subject<never>();

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      takeUntil(Impatient.givesUp),
      throwIfEmpty(() => new TimeoutError()),
    );
  }
}

@Controller()
class CheckedOrders {
  @Get('checked/:id')
  @UseGuards(Refuses)
  @UseInterceptors(ById)
  checked(@Param('id', Pipe) id: string): string {
    note('handler');
    return id;
  }
}

const OrderedRoutes = routesOf(
  {
    'mapped-inside/:id': [[ById, Maps]],
    'mapped-outside/:id': [[Ends, Maps, ById]],
    'merged/:id': [[ById, mapsLater(mergeMap)]],
    'promised/:id': [[ById, mapsLater(map)]],
    'impatient/:id': [[Impatient, LockInterceptor.for('order:<0.params.id>', { waitMs: Infinity })]],
  },
  here,
);

beforeEach(() => seen.splice(0));

describe.each(PLATFORMS)('the lock of a request on %s', (platform) => {
  const start = (...controllers: Type[]) =>
    startRequests(platform, { controllers: [CheckedOrders, OrderedRoutes, ...controllers] });

  it('is acquired after the guards, and covers the pipes and the handler', async () => {
    const [app, id] = [await start(), freshKey()];
    expect((await app.get(`checked/${id}`)).status).toBe(200);
    expect(seen).toEqual(['guard: no lock', `pipe: order:${id}`, `handler: order:${id}`]);
  });

  it('is not acquired for a request that a guard refuses', async () => {
    const [app, id] = [await start(), freshKey()];
    await app.locks.acquire(`order:${id}`);
    expect((await app.get(`checked/${id}?refused=1`)).status).toBe(403);
    expect(seen).toEqual(['guard: no lock']);
    expect(app.acquired).toEqual([`order:${id}`]);
    expect((await app.locks.inspect(`order:${id}`)).waiters).toBe(0);
  });

  it.each(['merged', 'promised'])('is held until an inner interceptor has handled its %s value', async (how) => {
    const [app, id] = [await start(), freshKey()];
    const key = `order:${id}`;
    const answer = app.get(`${how}/${id}`);
    await eventually(() => app.work.isRunning(id));
    expect(await app.locks.isLocked(key)).toBe(true);
    const other = app.get(`mapped-inside/${id}`);
    await untilWaiting(app, key);
    app.work.finish();
    expect((await answer).text).toBe(`${key}, later under ${key}`);
    expect((await other).status).toBe(200);
  });

  it('is acquired after the interceptors that are named before it have begun, and released before they end', async () => {
    const [app, id] = [await start(), freshKey()];
    expect((await app.get(`mapped-outside/${id}`)).text).toMatch(`order:${id}, mapped`);
    expect(seen).toEqual(['before: no lock', 'end: no lock']);
  });

  it('leaves the queue when an outer interceptor gives up', async () => {
    const [app, id] = [await start(), freshKey()];
    const lock = await app.locks.acquire(`order:${id}`);
    const answer = app.get(`impatient/${id}`);
    await untilWaiting(app, `order:${id}`);
    Impatient.givesUp.next(undefined as never);
    expect((await answer).status).toBe(500);
    expect(app.failures).toMatchObject([{ name: 'TimeoutError' }]);
    await untilWaiting(app, `order:${id}`, 0);
    await lock.release();
    expect((await app.get(`impatient/${id}`)).status).toBe(200);
  });
});
