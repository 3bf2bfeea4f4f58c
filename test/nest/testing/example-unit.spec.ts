import { Locked, LockBusyError } from '../../../lib/index.js';
import { FakeLockService, withFakeLocks } from '../../../lib/testing/index.js';

class OrdersService {
  @Locked('order:<0>', { ifBusy: 'throw' })
  async charge(id: string): Promise<string> {
    return `charged ${id}`;
  }
}

describe('OrdersService', () => {
  const locks = new FakeLockService();
  const orders = withFakeLocks(new OrdersService(), locks);

  beforeEach(() => void locks.reset());

  it('locks the order that it charges', async () => {
    expect(await orders.charge('7')).toBe('charged 7');
    expect(locks.keys).toEqual(['order:7']);
  });

  it('does not charge an order that another call charges', async () => {
    locks.refuse('order:7');
    await expect(orders.charge('7')).rejects.toBeInstanceOf(LockBusyError);
  });
});
