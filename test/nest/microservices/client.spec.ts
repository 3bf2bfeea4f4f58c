import { Controller } from '@nestjs/common';
import { MessagePattern, Payload } from '@nestjs/microservices';
import { Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { Work } from '../support/transports.js';
import { type Service, send, startService } from '../support/transports-tcp.js';

@Controller()
class Orders {
  service!: Service;

  constructor(private readonly work: Work) {}

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

afterEach(closeAll);

describe('a client whose connection was opened under a lock', () => {
  it('does not carry the lock into the calls of others that await its answers', async () => {
    const service = await startService([Orders]);
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
