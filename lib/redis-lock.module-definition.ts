import { type ConfigurableModuleAsyncOptions, ConfigurableModuleBuilder } from '@nestjs/common';
import { type Extras, type RedisLockModuleOptions } from './redis-lock.options.js';

/** The options that a factory returns. */
type FactoryOptions = Omit<RedisLockModuleOptions, keyof Extras>;

/** The source of the options (`useFactory`, `useClass` or `useExisting`), and the options that Nest needs before it runs. */
export interface RedisLockModuleAsyncOptions
  extends ConfigurableModuleAsyncOptions<FactoryOptions, 'createRedisLockOptions'>, Extras {}

export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<FactoryOptions>({
  moduleName: 'RedisLock',
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createRedisLockOptions')
  // The builder does not pass these on to the options.
  .setExtras<Extras>({ isGlobal: true, name: undefined }, (definition, { isGlobal }) => ({
    ...definition,
    global: isGlobal ?? true,
  }))
  .build();
