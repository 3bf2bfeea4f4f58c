import { type ConfigurableModuleAsyncOptions, ConfigurableModuleBuilder } from '@nestjs/common';
import { type RedisLockModuleOptions } from './redis-lock.options.js';

/** What is known when the module is imported, and not when its options are. */
type Extras = Pick<RedisLockModuleOptions, 'name' | 'isGlobal'>;

/** What a factory gives. */
type FactoryOptions = Omit<RedisLockModuleOptions, keyof Extras>;

/** Where the options come from (`useFactory`, `useClass` or `useExisting`), and what Nest needs to know before. */
export interface RedisLockModuleAsyncOptions
  extends ConfigurableModuleAsyncOptions<FactoryOptions, 'createRedisLockOptions'>, Extras {}

export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<FactoryOptions>({
  moduleName: 'RedisLock',
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createRedisLockOptions')
  // What is named here is no option for the builder.
  .setExtras<Extras>({ isGlobal: true, name: undefined }, (definition, { isGlobal }) => ({
    ...definition,
    global: isGlobal ?? true,
  }))
  .build();
