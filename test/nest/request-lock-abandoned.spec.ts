import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Get,
  Injectable,
  type NestInterceptor,
  Param,
  UseInterceptors,
} from '@nestjs/common';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { raceWith, TimeoutError } from 'rxjs';
import { LockInterceptor } from '../../lib/index.js';
import { eventually } from '../support/eventually.js';
import { closeAll, freshKey } from '../support/lock-app.js';
import { untilFree, untilWaiting } from '../support/waiting.js';
import { PLATFORMS, startRequests } from './support/requests.js';
import { Work } from './support/transports.js';
import { connect, startGateways } from './support/transports-ws.js';

@WebSocketGateway()
class Gateway {
  constructor(private readonly work: Work) {}

  @SubscribeMessage('run')
  @UseInterceptors(LockInterceptor.for('order:<1.id>'))
  async run(@MessageBody() { id }: { id: string }): Promise<unknown> {
    return { event: 'done', data: await this.work.run(id) };
  }
}

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

@Controller()
class Orders {
  constructor(private readonly work: Work) {}

  @Get('async/:id')
  @UseInterceptors(Impatient, LockInterceptor.for('order:<0.params.id>'))
  async slow(@Param('id') id: string): Promise<string> {
    return this.work.run(id);
  }

  @Get('promise/:id')
  @UseInterceptors(Impatient, LockInterceptor.for('order:<0.params.id>'))
  promised(@Param('id') id: string): Promise<string> {
    return this.work.run(id);
  }
}

afterEach(closeAll);

describe('a handler that goes on when nobody waits for it any more', () => {
  it('keeps its lock to its end when the WebSocket client has gone', async () => {
    const app = await startGateways([Gateway]);
    const [id, gone] = [freshKey(), await connect(app)];
    gone.send('run', { id });
    await eventually(() => app.work.isRunning(id));
    gone.close();
    (await connect(app)).send('run', { id });
    await untilWaiting(app, `order:${id}`);
    expect([app.work.started(id), app.work.overlapped(id)]).toEqual([1, false]);
    app.work.finish();
    await eventually(() => app.work.started(id) === 2);
    await untilFree(app, `order:${id}`);
    expect(app.work.overlapped(id)).toBe(false);
  });

  it.each(PLATFORMS.flatMap((platform) => ['async', 'promise'].map((how) => [platform, how] as const)))(
    'keeps its lock to its end when an interceptor outside has timed out (%s, %s)',
    async (platform, how) => {
      const [app, id] = [await startRequests(platform, { controllers: [Orders] }), freshKey()];
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
