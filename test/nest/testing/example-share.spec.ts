import { Locked } from '../../../lib/index.js';
import { FakeLockService, withFakeLocks } from '../../../lib/testing/index.js';

class Prices {
  constructor(readonly load: (sku: string) => Promise<number>) {}

  @Locked('price:<0>', { ifBusy: 'share' })
  async refresh(sku: string): Promise<number> {
    return this.load(sku);
  }
}

it('two calls load a price once', async () => {
  const fake = new FakeLockService();
  let loads = 0;
  const prices = withFakeLocks(new Prices(async () => (loads += 1)), fake);
  expect(await Promise.all([prices.refresh('a'), prices.refresh('a')])).toEqual([1, 1]);
  expect(fake.keys).toEqual(['price:a']);
});
