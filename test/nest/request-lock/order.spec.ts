import {
  type CallHandler,
  type CanActivate,
  Controller,
  type ExecutionContext,
  Get,
  Injectable,
  type NestInterceptor,
  Param,
  type PipeTransform,
  type Type,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { type Observable, Subject, TimeoutError, map, mergeMap, takeUntil, tap, throwIfEmpty } from 'rxjs';
import { currentLock, LockInterceptor, LockNotHeldError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { PLATFORMS, requestOf, startRequests } from '../support/requests.js';
import { routesOf } from '../support/routes.js';
import { Work } from '../support/transports.js';

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

/** Gives up when the test says so. */
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

const ById = LockInterceptor.for('order:<0.params.id>');

@Controller()
class Orders {
  @Get('checked/:id')
  @UseGuards(Refuses)
  @UseInterceptors(ById)
  checked(@Param('id', Pipe) id: string): string {
    note('handler');
    return id;
  }
}

const Routes = routesOf(
  {
    'mapped-inside/:id': [[ById, Maps]],
    'mapped-outside/:id': [[Ends, Maps, ById]],
    'merged/:id': [[ById, mapsLater(mergeMap)]],
    'promised/:id': [[ById, mapsLater(map)]],
    'impatient/:id': [[Impatient, LockInterceptor.for('order:<0.params.id>', { waitMs: Infinity })]],
  },
  here,
);

@Controller('by-controller')
@UseInterceptors(Maps)
class MappedByController {
  @Get(':id')
  @UseInterceptors(ById)
  run(): string {
    return here();
  }
}

beforeEach(() => seen.splice(0));
afterEach(closeAll);

describe.each(PLATFORMS)('the lock of a request on %s', (platform) => {
  const start = (...controllers: Type[]) => startRequests(platform, { controllers: [Orders, Routes, ...controllers] });

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

  it('covers the interceptors that are named after it', async () => {
    const [app, id] = [await start(), freshKey()];
    const key = `order:${id}`;
    expect((await app.get(`mapped-inside/${id}`)).text).toBe(`${key}, mapped under ${key}`);
    expect(seen).toEqual([`before: ${key}`]);
  });

  it.each(['merged', 'promised'])('is held until an inner interceptor is done with its %s value', async (how) => {
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

  it('is acquired after interceptors of the controller and global ones have begun', async () => {
    const global = { provide: APP_INTERCEPTOR, useClass: Maps };
    const outside = [await start(MappedByController)];
    outside.push(await startRequests(platform, { controllers: [Orders], providers: [global] }));
    const paths = [`by-controller/${freshKey()}`, `checked/${freshKey()}`];
    for (const [index, app] of outside.entries()) expect((await app.get(paths[index]!)).status).toBe(200);
    expect(seen.filter((line) => line.startsWith('before'))).toEqual(['before: no lock', 'before: no lock']);
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
