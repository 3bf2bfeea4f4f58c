import { Controller, Scope, UseGuards, UsePipes } from '@nestjs/common';
import { EventPattern, MessagePattern, Payload } from '@nestjs/microservices';
import { Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { expectOneAtATime, marks, refuses, startTwo, Work } from '../support/transports.js';
import { type Service, send, startService } from '../support/transports-tcp.js';

interface Order {
  id: string;
  refusedBy?: string;
}

@Controller()
class Orders {
  constructor(private readonly work: Work) {}

  @MessagePattern('above')
  @Locked('order:<0>')
  above(@Payload('id') id: string): Promise<string> {
    return this.work.run(id);
  }

  @Locked('order:<0.id>')
  @MessagePattern('below')
  below(@Payload() order: Order): Promise<string> {
    return this.work.run(order.id);
  }

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
}

@Controller({ scope: Scope.REQUEST })
class PerRequest {
  static built = 0;

  constructor(private readonly work: Work) {
    PerRequest.built += 1;
  }

  @MessagePattern('above, per request')
  @Locked('order:<0.id>')
  above(@Payload() order: Order): Promise<string> {
    return this.work.run(order.id);
  }

  @Locked('order:<0.id>')
  @MessagePattern('below, per request')
  below(@Payload() order: Order): Promise<string> {
    return this.work.run(order.id);
  }

  @EventPattern('paid, per request')
  @Locked('order:<0.id>')
  async paid(@Payload() order: Order): Promise<void> {
    await this.work.run(order.id);
  }
}

@Controller()
@UseGuards(refuses('class'))
@UsePipes(marks('class'))
class Checked {
  constructor(private readonly work: Work) {}

  @MessagePattern('checked above')
  @UseGuards(refuses('method'))
  @UsePipes(marks('method'))
  @Locked('order:<0>')
  above(@Payload('id', marks('parameter')) id: string): Promise<string> {
    return this.work.run(id);
  }

  @Locked('order:<0>')
  @UsePipes(marks('method'))
  @UseGuards(refuses('method'))
  @MessagePattern('checked below')
  below(@Payload('id', marks('parameter')) id: string): Promise<string> {
    return this.work.run(id);
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

const startOrders = (work = new Work()): Promise<Service> =>
  startService([Orders, PerRequest, Checked, Invoices], work);

afterEach(closeAll);

describe('a message handler', () => {
  it.each(['above', 'below', 'above, per request', 'below, per request'])(
    'answers under the key of its payload with its pattern %s the lock',
    async (pattern) => {
      const service = await startOrders();
      service.work.finish();
      expect(await send(service, pattern, { id: '7' })).toBe('order:7');
      expect(service.acquired).toEqual(['order:7']);
    },
  );

  it.each(['above', 'below', 'above, per request', 'below, per request'])(
    '(%s) runs on one of two instances at a time',
    async (pattern) => {
      await expectOneAtATime(await startTwo(startOrders), (service, id) => send(service, pattern, { id }));
    },
  );

  it('of a request-scoped controller has an instance for each message', async () => {
    const service = await startOrders();
    service.work.finish();
    const before = PerRequest.built;
    for (const id of ['1', '2']) await send(service, 'above, per request', { id });
    expect(PerRequest.built - before).toBe(2);
  });

  it.each(['checked above', 'checked below'])(
    '(%s) keeps its guards, and acquires nothing when they refuse',
    async (pattern) => {
      const service = await startOrders();
      for (const refusedBy of ['class', 'method']) {
        const refused = send(service, pattern, { id: freshKey(), refusedBy });
        await expect(refused).rejects.toMatchObject({ message: 'Forbidden resource' });
      }
      expect(service.acquired).toEqual([]);
    },
  );

  it.each(['checked above', 'checked below'])('(%s) locks what its pipes made of the payload', async (pattern) => {
    const received = (id: string): string => `${id}+class+method+parameter`;
    await expectOneAtATime(await startTwo(startOrders), (service, id) => send(service, pattern, { id }), received);
  });
});

describe('an event handler', () => {
  it.each(['paid above', 'paid below', 'paid, per request'])(
    '(%s) runs on one of two instances at a time',
    async (pattern) => {
      await expectOneAtATime(await startTwo(startOrders), async ({ client }, id) => client.emit(pattern, { id }));
    },
  );
});

describe('two handlers of one event', () => {
  it('both run, each under its own lock', async () => {
    const service = await startOrders();
    const id = freshKey();
    service.client.emit('paid above', { id });
    await eventually(() => service.work.isRunning(id) && service.work.isRunning(`${id}:invoice`));
    expect(service.acquired.toSorted()).toEqual([`order:${id}`, `order:${id}:invoice`]);
    service.work.finish();
  });
});
