import { Catch, Controller, type ExceptionFilter, UseFilters, UseInterceptors } from '@nestjs/common';
import {
  EventPattern,
  GrpcMethod,
  GrpcStreamMethod,
  MessagePattern,
  Payload,
  RpcException,
} from '@nestjs/microservices';
import { EMPTY, Observable, reduce } from 'rxjs';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Limited, LockConfigurationError, Locked, LockExceptionFilter, LockInterceptor } from '../../../lib/index.js';
import { partsOf } from '../../../lib/redis-lock.parts.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { Work } from '../support/transports.js';
import { send, type Service, startService } from '../support/transports-tcp.js';
import { rejection } from '../../support/waiting/rejection.js';
import { startGrpc } from '../support/transports-grpc.js';
import { connect, startGateways } from '../support/transports-ws.js';

afterEach(closeAll);

interface Order {
  id: string;
}

const caught: unknown[] = [];

@Catch()
class Catcher implements ExceptionFilter {
  catch(error: unknown): unknown {
    caught.push(error);
    return EMPTY;
  }
}

const ERROR = new RpcException({ code: 7, message: 'sold out' });

@Controller()
class Orders {
  service!: Service;

  constructor(private readonly work: Work) {}

  @EventPattern('fails')
  @UseFilters(Catcher)
  @Locked('order:<0.id>')
  async fails(@Payload() _order: Order): Promise<void> {
    throw ERROR;
  }

  @MessagePattern('price')
  async price(@Payload('id') id: string): Promise<string> {
    return `price of ${id}`;
  }

  @Locked('order:<0>')
  async ask(id: string): Promise<unknown> {
    const price = await send(this.service, 'price', { id });
    await this.work.run(id);
    return price;
  }
}

const start = (work = new Work()): Promise<Service> => startService([Orders], work);

describe('an event handler', () => {
  it('passes its error to its exception filter, and frees the key', async () => {
    const [service, id] = [await start(), freshKey()];
    service.client.emit('fails', { id });
    expect(await eventually(() => caught[0])).toBe(ERROR);
    expect(await service.locks.isLocked(`order:${id}`)).toBe(false);
  });
});

describe('a client whose connection was opened under a lock', () => {
  it('does not carry the lock into the calls of others that await its answers', async () => {
    const service = await start();
    const [{ work, app }, id] = [service, freshKey()];
    const orders = app.get(Orders);
    orders.service = service;
    const first = orders.ask(id);
    await eventually(() => work.isRunning(id));
    const askAgain = async (): Promise<unknown> => {
      await send(service, 'price', { id: freshKey() });
      return orders.ask(id);
    };
    const second = askAgain();
    await untilWaiting(service, `order:${id}`);
    await work.untilStarted(id);
    expect(work.started(id)).toBe(1);
    work.finish();
    expect(await Promise.all([first, second])).toEqual([`price of ${id}`, `price of ${id}`]);
    expect(work.overlapped(id)).toBe(false);
  });
});

const joined = (messages: Observable<number>): Observable<string> =>
  messages.pipe(reduce((all, one) => `${all}${one}`, ''));

@Controller()
class Sums {
  @Locked('sum')
  @GrpcStreamMethod('Sums', 'Above')
  above(messages: Observable<number>): Observable<string> {
    return joined(messages);
  }

  @Locked('sum')
  @GrpcStreamMethod('Sums', 'PromiseAbove')
  async promiseAbove(messages: Observable<number>): Promise<Observable<string>> {
    return joined(messages);
  }

  @GrpcStreamMethod('Sums', 'PromiseBelow')
  @Locked('sum')
  async promiseBelow(messages: Observable<number>): Promise<Observable<string>> {
    return joined(messages);
  }

  @GrpcStreamMethod('Sums', 'Request')
  @UseInterceptors(LockInterceptor.for('sum'))
  request(messages: Observable<number>): Observable<string> {
    return joined(messages);
  }
}

@Controller()
class Below {
  @GrpcStreamMethod('Below', 'Sum')
  @Locked('sum')
  sum(messages: Observable<number>): Observable<string> {
    return joined(messages);
  }
}

class Inherits extends Below {}
Controller()(Inherits);

@Controller()
@UseFilters(LockExceptionFilter)
class GrpcOrders {
  @GrpcMethod('Orders', 'Charge')
  @Locked('order', { ifBusy: 'throw' })
  async charge(): Promise<string> {
    return 'ran';
  }

  @GrpcMethod('Orders', 'Limited')
  @Limited('limited', 1, { ifBusy: 'throw' })
  async limited(): Promise<string> {
    return 'ran';
  }

  @GrpcMethod('Orders', 'Missing')
  @UseInterceptors(LockInterceptor.for('order:<0.id>'))
  async missing(): Promise<string> {
    return 'ran';
  }
}

describe('a gRPC method whose client streams', () => {
  it.each(['Above', 'PromiseAbove', 'PromiseBelow', 'Request'])(
    'gets all that the client sends before the lock is granted (%s)',
    async (rpc) => {
      const service = await startGrpc([Sums]);
      const held = await service.locks.acquire('sum');
      const { send, end, result } = service.stream(rpc, [1, 2]);
      await untilWaiting(service, 'sum');
      send(3);
      send(4);
      end();
      await held.release();
      expect(await result).toBe('1234');
      expect(await service.locks.isLocked('sum')).toBe(false);
    },
  );

  it.each([[Below], [Inherits]])('is refused at the start when it would lose them (%p)', async (controller) => {
    const error = await rejection(startGrpc([controller]));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('Below.sum: its lock is below @GrpcStreamMethod');
  });
});

describe('LockExceptionFilter on gRPC', () => {
  it.each([
    ['Charge', 'ABORTED', 10],
    ['Limited', 'RESOURCE_EXHAUSTED', 8],
    ['Missing', 'INVALID_ARGUMENT', 3],
  ])('answers %s with the status %s', async (rpc, _name, code) => {
    const service = await startGrpc([GrpcOrders]);
    await service.locks.acquire('order');
    await service.locks.acquire('limited', { mode: 'read', permits: 1 });
    expect(await service.call(rpc, {})).toMatchObject({ code, message: expect.any(String) });
  });

  it('answers a lock that is unavailable with the status UNAVAILABLE', async () => {
    const service = await startGrpc([GrpcOrders]);
    await partsOf(service.locks)!.locker.close(0);
    expect(await service.call('Charge', {})).toMatchObject({ code: 14 });
  });
});

@WebSocketGateway()
class SocketOrders {
  @SubscribeMessage('busy')
  @Locked('order:<0.id>', { ifBusy: 'throw' })
  async busy(@MessageBody() _order: Order): Promise<void> {}

  @SubscribeMessage('skip')
  @Locked('order:<0.id>', { ifBusy: 'skip' })
  async skip(@MessageBody() _order: Order): Promise<string | undefined> {
    return 'ran';
  }

  @SubscribeMessage('skipByRequest')
  @UseInterceptors(LockInterceptor.for('order:<1.id>', { ifBusy: 'skip' }))
  skipByRequest(): string {
    return 'ran';
  }
}

describe('the messages of one socket', () => {
  it.each(['skip', 'skipByRequest'])(
    'have no answer when they are skipped, and an error otherwise (%s)',
    async (how) => {
      const gateway = await startGateways([SocketOrders]);
      const [{ received, send }, id] = [await connect(gateway), freshKey()];
      const lock = await gateway.locks.acquire(`order:${id}`);
      const skipped: unknown[] = [];
      gateway.locks.events.on('skipped', ({ where }) => skipped.push(where));
      send(how, { id });
      await eventually(() => skipped.length > 0);
      send('busy', { id });
      await eventually(() => received.length > 0);
      await lock.release();
      send(how, { id });
      await eventually(() => received.length === 2);
      expect([received[0]!.event, received[1], skipped]).toEqual(['exception', 'ran', [`SocketOrders.${how}`]]);
    },
  );
});
