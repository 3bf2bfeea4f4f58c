import { systemClock } from '../../../../lib/core/clock.js';
import { LockConfigurationError } from '../../../../lib/core/lock.errors.js';
import { checkStore, type LockStoreContext, storeOf } from '../../../../lib/core/store/given-store.js';
import { FakeReporter, FakeStore } from '../../../support/core/fake-store.js';
import { thrownBy } from '../../../support/waiting/rejection.js';

const context: LockStoreContext = {
  keyPrefix: 'lock:',
  keepMs: 60_000,
  clock: systemClock,
  reporter: new FakeReporter(),
};

const storeWith = (members: object): object => Object.assign(new FakeStore(), members);

describe('checkStore', () => {
  it.each<[string, unknown, string]>([
    ['a class', FakeStore, 'got a value of type function'],
    ['a text', 'memory', 'got a value of type string'],
    ['null', null, 'got null'],
    ['a promise', Promise.resolve(new FakeStore()), 'got a promise (await it in forRootAsync)'],
    ['an empty object', {}, 'it lacks `listen()`, `acquire()`, `renew()`, `release()`, `close()`.'],
    ['a store without two methods', storeWith({ renew: undefined, close: 5 }), 'it lacks `renew()`, `close()`.'],
    ['an id with a dot', storeWith({ clientId: 'a.b' }), '`store.clientId` to be a text without dots and spaces'],
    ['no id', storeWith({ clientId: undefined }), '`store.clientId` to be a text without dots and spaces'],
    ['an odd withdraw', storeWith({ withdraw: true }), '`store.withdraw` to be a method or left out'],
    ['an odd list', storeWith({ list: 5 }), '`store.list` to be a method or left out'],
    ['odd jobs', storeWith({ jobs: [] }), '`store.jobs` to be a method or left out'],
    ['an odd history', storeWith({ history: { append: true } }), '`store.history` to be an object with the methods'],
    ['odd tokens', storeWith({ reservesTokens: 64 }), '`store.reservesTokens` to be true or false'],
  ])('refuses %s, and gives the reason', (_what, store, expected) => {
    const error = thrownBy(() => checkStore(store));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(expected);
  });

  it('refuses a store that cannot be read', () => {
    const store = Object.defineProperty(new FakeStore(), 'acquire', {
      get: () => {
        throw new RangeError('no');
      },
    });
    expect(thrownBy(() => checkStore(store))).toMatchObject({
      code: 'LOCK_CONFIGURATION',
      cause: expect.any(RangeError),
    });
  });
});

describe('storeOf', () => {
  it('lets the error of a factory pass', () => {
    const failure = new RangeError('no database');
    const fail = (): never => {
      throw failure;
    };
    expect(thrownBy(() => storeOf(fail, context))).toBe(failure);
  });
});
