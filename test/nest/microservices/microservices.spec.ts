import { Catch, Controller, type ExceptionFilter, Scope, UseFilters, UseInterceptors } from '@nestjs/common';
import { EventPattern, MessagePattern, Payload, RpcException } from '@nestjs/microservices';
import { EMPTY, Observable, Subject } from 'rxjs';
import { Locked, LockInterceptor } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { expectOneAtATime, startTwo, Work } from '../support/transports.js';
import { type Service, send, startService } from '../support/transports-tcp.js';

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
  readonly source = new Subject<number>();
  service!: Service;

  constructor(private readonly work: Work) {}

  @EventPattern('paid above')
  @Locked('order:<0.id>')
  async paidAbove(@Payload() order: Order): Promise<void> {
    await this.work.run(order.id);
  }

  @Locked('order:<0>')
  @EventPattern('paid below')
  async paidBelow(@Payload('id') id: string): Promise<void> {
    await this.work.run(id);
  }

  @EventPattern('paid by request')
  @UseInterceptors(LockInterceptor.for('order:<0.id>'))
  async paidByRequest(@Payload() { id }: Order): Promise<void> {
    await this.work.run(id);
  }

  @EventPattern('fails')
  @UseFilters(Catcher)
  @Locked('order:<0.id>')
  async fails(@Payload() _order: Order): Promise<void> {
    throw ERROR;
  }

  @EventPattern('steps')
  @Locked('order:<0.id>')
  steps(@Payload() _order: Order): Observable<number> {
    return this.source;
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

@Controller({ scope: Scope.REQUEST })
class PerRequest {
  constructor(private readonly work: Work) {}

  @EventPattern('paid, per request')
  @Locked('order:<0.id>')
  async paid(@Payload() order: Order): Promise<void> {
    await this.work.run(order.id);
  }
}

/** The second handler of an event that `Orders` handles, too. */
@Controller()
class Invoices {
  constructor(private readonly work: Work) {}

  @EventPattern('paid above')
  @Locked('order:<0.id>:invoice')
  async paid(@Payload() order: Order): Promise<void> {
    await this.work.run(`${order.id}:invoice`);
  }
}

const start = (work = new Work()): Promise<Service> => startService([Orders, PerRequest, Invoices], work);

afterEach(closeAll);

describe('an event handler', () => {
  it.each(['paid above', 'paid below', 'paid, per request', 'paid by request'])(
    '(%s) runs on one of two instances at a time',
    async (pattern) => {
      await expectOneAtATime(await startTwo(start), async ({ client }, id) => client.emit(pattern, { id }));
    },
  );

  it('runs beside the other handlers of its event, each under its own lock', async () => {
    const [service, id] = [await start(), freshKey()];
    service.client.emit('paid above', { id });
    await eventually(() => service.work.isRunning(id) && service.work.isRunning(`${id}:invoice`));
    expect(service.acquired.toSorted()).toEqual([`order:${id}`, `order:${id}:invoice`]);
    service.work.finish();
  });

  it('passes its error to its exception filter, and frees the key', async () => {
    const [service, id] = [await start(), freshKey()];
    service.client.emit('fails', { id });
    expect(await eventually(() => caught[0])).toBe(ERROR);
    expect(await service.locks.isLocked(`order:${id}`)).toBe(false);
  });

  it('is subscribed to once, and holds the lock until it completes, when it returns an Observable', async () => {
    const work = new Work();
    const [a, b, id] = [await start(work), await start(work), freshKey()];
    const { source } = a.app.get(Orders);
    a.client.emit('steps', { id });
    await eventually(() => source.observed);
    b.client.emit('paid below', { id });
    await untilWaiting(b, `order:${id}`);
    source.next(1);
    expect([a.acquired, work.started(id)]).toEqual([[`order:${id}`], 0]);
    source.complete();
    await work.untilStarted(id);
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
