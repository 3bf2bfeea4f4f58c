import * as api from '../../lib/index.js';

describe('the public API', () => {
  it('exports these names, and no others', () => {
    expect(Object.keys(api).toSorted()).toEqual(
      [
        'LOCK_SCRIPTS',
        'Limited',
        'LockBusyError',
        'LockConfigurationError',
        'LockError',
        'LockExceptionFilter',
        'LockInterceptor',
        'LockKeyError',
        'LockLostError',
        'LockNotHeldError',
        'LockReentryError',
        'LockShutdownError',
        'LockStoreError',
        'LockWaitTimeoutError',
        'Locked',
        'ReadLocked',
        'RedisLockModule',
        'RedisLockService',
        'WriteLocked',
        'arg',
        'assertLocked',
        'createLockScripts',
        'currentLock',
        'getLockServiceToken',
        'InjectLockService',
        'key',
        'lua',
      ].toSorted(),
    );
  });
});
