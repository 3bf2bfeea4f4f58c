import { UseInterceptors } from '@nestjs/common';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Locked, LockInterceptor } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { Work } from '../support/transports.js';
import { connect, startGateways } from '../support/transports-ws.js';

interface Order {
  id: string;
}

@WebSocketGateway()
class Orders {
  constructor(private readonly work: Work) {}

  @SubscribeMessage('run')
  @Locked('order:<0.id>')
  run(@MessageBody() { id }: Order): Promise<string> {
    return this.work.run(id);
  }

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

afterEach(closeAll);

describe('the messages of one socket', () => {
  it('run one at a time for one key, too', async () => {
    const gateway = await startGateways([Orders]);
    const [{ received, send }, id] = [await connect(gateway), freshKey()];
    send('run', { id });
    send('run', { id });
    await untilWaiting(gateway, `order:${id}`);
    await gateway.work.untilStarted(id);
    expect(gateway.work.started(id)).toBe(1);
    gateway.work.finish();
    await eventually(() => received.length === 2);
    expect(gateway.work.overlapped(id)).toBe(false);
  });

  it.each(['skip', 'skipByRequest'])(
    'have no answer when they are skipped, and an error otherwise (%s)',
    async (how) => {
      const gateway = await startGateways([Orders]);
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
      expect([received[0]!.event, received[1], skipped]).toEqual(['exception', 'ran', [`Orders.${how}`]]);
    },
  );
});
