import { inspect } from 'node:util';
import * as errors from '../../../lib/core/lock.errors.js';

const all = { ...errors };
const { LockBusyError, LockError, LockLostError, LockStoreError } = all;

const COPY: string = '../../../lib/core/lock.errors.ts?copy';

/** Another copy of the package in this process: an ESM and a CommonJS one, or another module registry of Jest. */
const loadCopy = async (): Promise<typeof errors> => (await import(COPY)) as typeof errors;

const DETAILS = { key: 'k', mode: 'read', waitedMs: 5, reason: 'expired' } as const;

describe('the errors', () => {
  it.each([
    ['LockBusyError', 'LOCK_BUSY'],
    ['LockWaitTimeoutError', 'LOCK_WAIT_TIMEOUT'],
    ['LockLostError', 'LOCK_LOST'],
    ['LockStoreError', 'LOCK_STORE'],
    ['LockKeyError', 'LOCK_KEY'],
    ['LockReentryError', 'LOCK_REENTRY'],
    ['LockNotHeldError', 'LOCK_NOT_HELD'],
    ['LockShutdownError', 'LOCK_SHUTDOWN'],
    ['LockConfigurationError', 'LOCK_CONFIGURATION'],
  ] as const)('%s has the code %s, its name, key, mode and text', (name, code) => {
    const type = all[name];
    const error = new type('text', DETAILS);
    expect(error).toMatchObject({ name, code, key: 'k', mode: 'read', message: 'text' });
    expect(error).toBeInstanceOf(type);
    expect(error).toBeInstanceOf(LockError);
    expect(error).toBeInstanceOf(Error);
    expect(Object.prototype.toString.call(error)).toBe('[object Error]');
    expect(String(error)).toBe(`${name}: text`);
    expect(error.stack).toContain('lock.errors.spec');
  });

  it.each([undefined, null, 'LockError', 5, {}, new Error('LockError'), { name: 'LockBusyError', code: 'LOCK_BUSY' }])(
    'are distinct from %p',
    (value) => {
      expect(value instanceof LockError).toBe(false);
      expect(value instanceof LockBusyError).toBe(false);
    },
  );

  it('carry a cause where there is one, and no such property otherwise', () => {
    const cause = new Error('refused');
    expect(new LockStoreError('text', { cause }).cause).toBe(cause);
    expect('cause' in new LockStoreError('text')).toBe(false);
  });
});

describe('the fields of an error that leaves the process', () => {
  const lost = new LockLostError('text', { key: 'k', mode: 'write', reason: 'taken', result: { card: '4111' } });

  it('are code, key, mode and its own fields: in JSON, in a spread and over IPC', () => {
    const fields = { code: 'LOCK_LOST', key: 'k', mode: 'write', reason: 'taken' };
    expect(JSON.parse(JSON.stringify(lost))).toEqual(fields);
    expect(Object.assign({}, lost)).toEqual(fields);
    expect(Object.assign({}, new LockStoreError('text'))).toEqual({
      code: 'LOCK_STORE',
      retryable: true,
      wasSent: true,
    });
  });

  it('leave out the result of the work, which a caller can still read', () => {
    expect(lost.result).toEqual({ card: '4111' });
    expect(inspect(lost)).not.toContain('4111');
  });

  it('are only those with a value', () => {
    expect(inspect(new LockBusyError('text'))).not.toContain('undefined');
    expect(new LockBusyError('text').key).toBeUndefined();
  });
});

describe('instanceof across two copies of the package', () => {
  it('holds both ways, for the class and for the base', async () => {
    const copy = await loadCopy();
    expect(copy.LockBusyError).not.toBe(LockBusyError);
    expect(new copy.LockBusyError('text')).toBeInstanceOf(LockBusyError);
    expect(new copy.LockBusyError('text')).toBeInstanceOf(LockError);
    expect(new LockBusyError('text')).toBeInstanceOf(copy.LockBusyError);
    expect(new copy.LockBusyError('text')).not.toBeInstanceOf(LockLostError);
  });

  it('does not depend on the name of the class, which a minifier changes', async () => {
    const copy = await loadCopy();
    Object.defineProperty(copy.LockKeyError, 'name', { value: 'a' });
    expect(new copy.LockKeyError('text')).toBeInstanceOf(errors.LockKeyError);
    expect(new copy.LockKeyError('text').name).toBe('LockKeyError');
  });
});

describe('a subclass that a user derives', () => {
  class OrderBusyError extends LockBusyError {}
  class OtherBusyError extends LockBusyError {}

  it('is distinct from its parent and its siblings', () => {
    expect(new OrderBusyError('text')).toBeInstanceOf(OrderBusyError);
    expect(new OrderBusyError('text')).toBeInstanceOf(LockBusyError);
    expect(new OrderBusyError('text')).toBeInstanceOf(LockError);
    expect(new LockBusyError('text')).not.toBeInstanceOf(OrderBusyError);
    expect(new OtherBusyError('text')).not.toBeInstanceOf(OrderBusyError);
    expect(new OrderBusyError('text').code).toBe('LOCK_BUSY');
  });
});
