import { Limited } from '../../../lib/index.js';
import { FakeLockService, withFakeLocks } from '../../../lib/testing/index.js';

class Exports {
  @Limited('tenant:<0>', 8, { take: (_tenant: string, pages: number) => Math.min(pages, 4), perInstance: 4 })
  async render(_tenant: string, pages: number): Promise<string> {
    return `${pages} pages`;
  }
}

it('an export takes a permit for each page, up to those of its instance', async () => {
  const locks = new FakeLockService();
  const reports = withFakeLocks(new Exports(), locks);
  expect(await reports.render('acme', 3)).toBe('3 pages');
  await reports.render('acme', 100);
  expect(locks.calls.map(({ options }) => options.take)).toEqual([3, 4]);
  expect(locks.calls[0]).toMatchObject({ keys: ['tenant:acme'], options: { permits: 8, perInstance: 4 } });
});
