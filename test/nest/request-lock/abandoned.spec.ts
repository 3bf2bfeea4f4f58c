import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  UseInterceptors,
} from '@nestjs/common';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { NEVER, type Observable, raceWith, TimeoutError } from 'rxjs';
import { LockInterceptor } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree, untilWaiting } from '../../support/waiting/waiters.js';
import { PLATFORMS, startRequests } from '../support/requests.js';
import { routesOf } from '../support/routes.js';
import { Work } from '../support/transports.js';
import { connect, startGateways } from '../support/transports-ws.js';

/** Puts a function of another name and kind in the place of the method, as decorators for traces and caches do. */
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

/** Gives the request up as `timeout()` does, which many apps have around all requests, while the handler runs. */
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

afterEach(closeAll);

describe('a handler that goes on when nobody waits for its result', () => {
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

describe('a handler that returns an Observable without being declared to', () => {
  it('releases its lock when the WebSocket client goes before the first value', async () => {
    const [app, id] = [await startGateways([Gateway]), freshKey()];
    const gone = await connect(app);
    gone.send('values', { id });
    await eventually(() => subscribable.includes(id));
    expect(await app.locks.isLocked(`order:${id}`)).toBe(true);
    gone.close();
    await untilFree(app, `order:${id}`);
  });

  it('keeps its lock until the promise of it has settled', async () => {
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
