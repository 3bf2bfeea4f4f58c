import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Get,
  Injectable,
  type NestInterceptor,
  Param,
  type PipeTransform,
  UseInterceptors,
} from '@nestjs/common';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { NEVER, type Observable, raceWith, retry, TimeoutError } from 'rxjs';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { LockInterceptor } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree, untilWaiting } from '../../support/waiting/waiters.js';
import { PLATFORMS, startRequests, startTwoRequests } from '../support/requests.js';
import { routesOf } from '../support/routes.js';
import { Work } from '../support/transports.js';
import { connect, startGateways } from '../support/transports-ws.js';
import { idOf, TRANSPORTS } from '../support/every-transport.js';

afterEach(closeAll);

/** Replaces the method with a function of another name and kind, as decorators for traces and caches do. */
function Replaced(_target: object, _name: string, descriptor: PropertyDescriptor): void {
  const method = descriptor.value as (...args: unknown[]) => unknown;
  descriptor.value = function instrumented(this: unknown, ...args: unknown[]) {
    return method.apply(this, args);
  };
}

const ByMessage = LockInterceptor.for('order:<1.id>');

@WebSocketGateway()
class Gateway {
  constructor(private readonly work: Work) {}

  @SubscribeMessage('async')
  @UseInterceptors(ByMessage)
  async run(@MessageBody() { id }: { id: string }): Promise<unknown> {
    return this.#answer(id);
  }

  @SubscribeMessage('untyped')
  @UseInterceptors(ByMessage)
  untyped(@MessageBody() { id }: { id: string }) {
    return this.#answer(id);
  }

  @SubscribeMessage('replaced')
  @UseInterceptors(ByMessage)
  @Replaced
  async replaced(@MessageBody() { id }: { id: string }): Promise<unknown> {
    return this.#answer(id);
  }

  @SubscribeMessage('values')
  @UseInterceptors(ByMessage)
  values(@MessageBody() { id }: { id: string }) {
    return this.#values(id);
  }

  @SubscribeMessage('promised-values')
  @UseInterceptors(ByMessage)
  async promisedValues(@MessageBody() { id }: { id: string }) {
    await this.#answer(id);
    return this.#values(id);
  }

  async #answer(id: string): Promise<unknown> {
    return { event: 'done', data: await this.work.run(id) };
  }

  #values(id: string): Observable<unknown> {
    subscribable.push(id);
    return NEVER;
  }
}

/** The ids of which an Observable was returned. */
const subscribable: string[] = [];

/** Abandons the request while the handler runs, like `timeout()`, which many apps apply to all requests. */
@Injectable()
class Impatient implements NestInterceptor {
  constructor(private readonly work: Work) {}

  intercept(context: ExecutionContext, next: CallHandler) {
    const { id } = context.switchToHttp().getRequest().params;
    const givesUp = eventually(() => this.work.isRunning(id)).then(() => Promise.reject(new TimeoutError()));
    return next.handle().pipe(raceWith(givesUp));
  }
}

const ById = LockInterceptor.for('order:<0.params.id>');

const Routes = routesOf({
  'async/:id': [[Impatient, ById], async (id, work) => work.run(id)],
  'untyped/:id': [[Impatient, ById], (id, work) => work.run(id)],
});

describe('a handler that continues when no client waits for its result', () => {
  it.each(['async', 'untyped', 'replaced'])('(%s) keeps its lock when the WebSocket client has gone', async (how) => {
    const app = await startGateways([Gateway]);
    const [id, gone] = [freshKey(), await connect(app)];
    gone.send(how, { id });
    await eventually(() => app.work.isRunning(id));
    gone.close();
    (await connect(app)).send(how, { id });
    await untilWaiting(app, `order:${id}`);
    await app.work.untilStarted(id);
    expect([app.work.started(id), app.work.overlapped(id)]).toEqual([1, false]);
    app.work.finish();
    await eventually(() => app.work.started(id) === 2);
    await untilFree(app, `order:${id}`);
    expect(app.work.overlapped(id)).toBe(false);
  });

  it.each(PLATFORMS.flatMap((platform) => ['async', 'untyped'].map((how) => [platform, how] as const)))(
    'keeps its lock to its end when an outer interceptor has timed out (%s, %s)',
    async (platform, how) => {
      const [app, id] = [await startRequests(platform, { controllers: [Routes] }), freshKey()];
      expect((await app.get(`${how}/${id}`)).status).toBe(500);
      expect([app.work.isRunning(id), await app.locks.isLocked(`order:${id}`)]).toEqual([true, true]);
      const closed = app.app.close();
      await eventually(() => app.locks.tryAcquire(freshKey()).then(() => false, () => true)); // prettier-ignore
      expect(app.locks.activity.held).toBe(1);
      app.work.finish();
      await closed;
    },
  );
});

describe('a handler that returns an Observable without declaring it', () => {
  it('releases its lock when the WebSocket client goes before the first value', async () => {
    const [app, id] = [await startGateways([Gateway]), freshKey()];
    const gone = await connect(app);
    gone.send('values', { id });
    await eventually(() => subscribable.includes(id));
    expect(await app.locks.isLocked(`order:${id}`)).toBe(true);
    gone.close();
    await untilFree(app, `order:${id}`);
  });

  it('keeps its lock until its promise has settled', async () => {
    const [app, id] = [await startGateways([Gateway]), freshKey()];
    const gone = await connect(app);
    gone.send('promised-values', { id });
    await eventually(() => app.work.isRunning(id));
    gone.close();
    (await connect(app)).send('async', { id });
    await untilWaiting(app, `order:${id}`);
    await app.work.untilStarted(id);
    expect(app.work.started(id)).toBe(1);
    app.work.finish();
    await eventually(() => app.work.started(id) === 2);
    expect([app.work.overlapped(id), subscribable.includes(id)]).toEqual([false, true]);
  });
});

/** Abandons the first call of a handler while it runs, like `timeout()`. */
@Injectable()
class ImpatientOnce implements NestInterceptor {
  constructor(private readonly work: Work) {}

  intercept(context: ExecutionContext, next: CallHandler) {
    if (this.work.started(idOf(context)) > 0) return next.handle();
    const givesUp = eventually(() => this.work.isRunning(idOf(context))).then(() => Promise.reject(new TimeoutError()));
    return next.handle().pipe(raceWith(givesUp));
  }
}

/** Answers the first call without the handler, which continues. */
@Injectable()
class Stale implements NestInterceptor {
  constructor(private readonly work: Work) {}

  intercept(context: ExecutionContext, next: CallHandler) {
    if (this.work.started(idOf(context)) > 0) return next.handle();
    const stale = eventually(() => this.work.isRunning(idOf(context))).then(() => 'stale');
    return next.handle().pipe(raceWith(stale));
  }
}

/** The ids whose pipe has begun, and those whose handler has. */
const [piped, ran]: [string[], string[]] = [[], []];

class SlowPipe implements PipeTransform<string, Promise<string>> {
  static ended: Promise<void>;

  async transform(id: string): Promise<string> {
    piped.push(id);
    await SlowPipe.ended;
    return id;
  }
}

/** Gives up while a pipe works, before the handler is called. */
class GivesUpEarly implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler) {
    const givesUp = eventually(() => piped.includes(idOf(context))).then(() => Promise.reject(new TimeoutError()));
    return next.handle().pipe(raceWith(givesUp));
  }
}

/** How often the pipe of a request has begun. */
const tries = (id: string): number => piped.filter((one) => one === id).length;

/** Slow at the second try only. */
class SlowAgain implements PipeTransform<string, Promise<string>> {
  async transform(id: string): Promise<string> {
    piped.push(id);
    if (tries(id) > 1) await SlowPipe.ended;
    return id;
  }
}

/** Retries once, and gives up while the pipe of the retry works. */
class Retries implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler) {
    const isTriedAgain = eventually(() => tries(idOf(context)) === 2);
    return next.handle().pipe(retry(1), raceWith(isTriedAgain.then(() => Promise.reject(new TimeoutError()))));
  }
}

const run = (id: string, work: Work): Promise<string> => work.run(id);

const TimedRoutes = routesOf({
  'stale/:id': [[ById, Stale], run],
  'global/:id': [ImpatientOnce, run],
  'twice/:id': [[ById, LockInterceptor.for('inner:<0.params.id>'), ImpatientOnce], run],
});

@Controller()
class Orders {
  @Get('nothing')
  nothing(): void {}

  @Get('piped/:id')
  @UseInterceptors(ById, GivesUpEarly)
  async piped(@Param('id', SlowPipe) id: string): Promise<void> {
    ran.push(id);
  }

  @Get('retried/:id')
  @UseInterceptors(ById, Retries)
  async retried(@Param('id', SlowAgain) id: string): Promise<void> {
    ran.push(id);
    throw new Error('at the first try');
  }
}

describe.each(PLATFORMS)('a handler that an interceptor inside the lock times out, on %s', (platform) => {
  const global = [{ provide: APP_INTERCEPTOR, useClass: ById }];

  it.each([
    ['stale', 200, []],
    ['global', 500, global],
    ['twice', 500, []],
  ])('(%s) keeps its lock until it has settled, while the client gets its answer', async (path, status, providers) => {
    const [[a, b], id] = [
      await startTwoRequests(platform, { controllers: [TimedRoutes], providers: [...providers] }),
      freshKey(),
    ];
    expect((await a.get(`${path}/${id}`)).status).toBe(status);
    expect(a.work.isRunning(id)).toBe(true);
    const second = b.get(`${path}/${id}`);
    await untilWaiting(a, `order:${id}`);
    await a.work.untilStarted(id);
    expect(a.work.started(id)).toBe(1);
    a.work.finish();
    await second;
    expect([a.work.started(id), a.work.overlapped(id)]).toEqual([2, false]);
    await untilFree(a, `order:${id}`);
  });

  it.each([
    ['when it was not yet called: the lock has been released', 'piped', 1, 0],
    ['again when it was about to be retried', 'retried', 2, 1],
  ])('does not run %s', async (_when, path, begun, runs) => {
    let endPipes = (): void => {};
    SlowPipe.ended = new Promise((resolve) => (endPipes = resolve));
    const [app, id] = [await startRequests(platform, { controllers: [Orders] }), freshKey()];
    expect((await app.get(`${path}/${id}`)).status).toBe(500);
    await untilFree(app, `order:${id}`);
    endPipes();
    await SlowPipe.ended;
    expect((await app.get('nothing')).status).toBe(200);
    expect([tries(id), ran.filter((one) => one === id)]).toEqual([begun, Array.from({ length: runs }, () => id)]);
  });
});

describe.each(TRANSPORTS)('a handler that an interceptor inside the lock times out, over %s', (_name, transport) => {
  const { declares, handles, id, key } = transport;

  @declares()
  class Runs {
    constructor(private readonly work: Work) {}

    @handles('run')
    @UseInterceptors(LockInterceptor.for(key), ImpatientOnce)
    async run(@id() id: string): Promise<string> {
      return this.work.run(id);
    }
  }

  it('keeps its lock until it has settled', async () => {
    const [app, id] = [await transport.start([Runs]), freshKey()];
    expect(await app.call('run', id)).toHaveProperty('failed');
    const second = app.call('run', id);
    await untilWaiting(app, `order:${id}`);
    await app.work.untilStarted(id);
    expect([app.work.isRunning(id), app.work.started(id)]).toEqual([true, 1]);
    app.work.finish();
    expect(await second).toBe(`order:${id}`);
    expect([app.work.started(id), app.work.overlapped(id)]).toEqual([2, false]);
  });
});
