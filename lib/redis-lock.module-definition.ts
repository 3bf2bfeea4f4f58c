import { ConfigurableModuleBuilder } from '@nestjs/common';
import { type RedisLockModuleOptions } from './redis-lock.options.js';

/** What is known when the module is imported, and not when its options are. */
export interface RedisLockModuleExtras {
  /** The name of this connection, for apps with several; the default one has none. */
  name?: string;
  /** @default true */
  isGlobal?: boolean;
}

export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN, ASYNC_OPTIONS_TYPE, OPTIONS_TYPE } =
  new ConfigurableModuleBuilder<Omit<RedisLockModuleOptions, 'name' | 'isGlobal'>>({ moduleName: 'RedisLock' })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createRedisLockOptions')
    .setExtras<RedisLockModuleExtras>({ isGlobal: true }, (definition, { isGlobal, name: _name }) => ({
      ...definition,
      global: isGlobal ?? true,
    }))
    .build();
