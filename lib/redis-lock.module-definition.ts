import { type ConfigurableModuleAsyncOptions, ConfigurableModuleBuilder } from '@nestjs/common';
import { type Extras, type RedisLockModuleOptions } from './redis-lock.options.js';

/** What a factory returns. */
type FactoryOptions = Omit<RedisLockModuleOptions, keyof Extras>;

/** Where the options come from (`useFactory`, `useClass` or `useExisting`), and those that Nest needs before. */
export interface RedisLockModuleAsyncOptions
  extends ConfigurableModuleAsyncOptions<FactoryOptions, 'createRedisLockOptions'>, Extras {}

export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<FactoryOptions>({
  moduleName: 'RedisLock',
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createRedisLockOptions')
  // The builder does not pass on what is named here.
  .setExtras<Extras>({ isGlobal: true, name: undefined }, (definition, { isGlobal }) => ({
    ...definition,
    global: isGlobal ?? true,
  }))
  .build();
