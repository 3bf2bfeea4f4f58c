import { type ModulesContainer } from '@nestjs/core';
import type { RedisLockService } from '../redis-lock.service.js';
import { getLockServiceToken } from '../redis-lock.tokens.js';

const NAME = 'RedisLockService';

/** The lock services of all connections that an app has, each once. */
export function lockServicesIn(modules: ModulesContainer): Set<RedisLockService> {
  const services = new Set<RedisLockService>();
  for (const { providers } of modules.values()) {
    for (const [token, { instance }] of providers) {
      // Asked for its name only where the token is one of ours.
      if (typeof token !== 'symbol' || !token.description?.startsWith(NAME) || !instance) continue;
      const locks = instance as RedisLockService;
      if (token === getLockServiceToken(locks.connection)) services.add(locks);
    }
  }
  return services;
}
