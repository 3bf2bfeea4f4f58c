import 'reflect-metadata';
import { closeAll } from '../../support/apps/lock-app.js';
import { Base, expectRefused, isLockedBy, SEVERAL, start, startTwo, withoutThis } from '../support/places-by-hand.js';

afterEach(closeAll);

const methodsOf = (service: Base): object => {
  const { run, named, seenBy } = withoutThis(service);
  return { run, named, seenBy };
};

const copies: Record<string, (service: Base) => Base> = {
  'Object.create() of an object': (service) => Object.create(service) as Base,
  'a spread copy that is given the methods': (service) => ({ ...(service as object), ...methodsOf(service) }) as Base,
  'Object.assign() to a new object': (service) => Object.assign(new Base(), service),
  'a frozen object': (service) => Object.freeze(service),
  'a proxy of an object': (service) => new Proxy(service, {}),
};

describe('a copy of an object that Nest built', () => {
  it.each(Object.keys(copies))('made as %s uses the lock of the same module beside another one', async (how) => {
    const [own, other] = await startTwo();
    const copy = copies[how]!(own.app.get(Base));
    expect([await isLockedBy(copy, own), await isLockedBy(copy, other)]).toEqual([true, false]);
    expect(await copy.named('7')).toBe('base:7');
  });

  it('is refused beside another module when it copied nothing, as any object that Nest did not build', async () => {
    await startTwo();
    const bare = Object.create(Base.prototype) as Base;
    await expectRefused((key) => bare.run(key), SEVERAL);
  });

  it('shows nothing of the lock in JSON or in a loop over its names', async () => {
    const service = (await start([Base])).app.get(Base);
    expect(JSON.stringify(service)).toBe('{"name":"base"}');
    expect(Object.keys(service)).toEqual(['name']);
  });
});
