import { type ModuleRef } from '@nestjs/core';
import { LockConfigurationError } from '../core/lock.errors.js';
import type { RedisLockService } from '../redis-lock.service.js';
import { getLockServiceToken } from '../redis-lock.tokens.js';

/**
 * The lock service of a connection, wherever in the app it is.
 * @throws LockConfigurationError when there is none
 */
export function findLockService(moduleRef: ModuleRef, connection: string | undefined, where: string): RedisLockService {
  try {
    return moduleRef.get<RedisLockService>(getLockServiceToken(connection), { strict: false });
  } catch (cause) {
    const which = connection === undefined ? 'the default connection' : `the connection "${connection}"`;
    const options = connection === undefined ? '' : `{ name: '${connection}' }`;
    const advice = `Import RedisLockModule.forRoot(${options}), or name the connections that the app has.`;
    throw new LockConfigurationError(`${where} found no lock service of ${which}. ${advice}`, { cause });
  }
}
