import { type DynamicModule, Module, type Provider } from '@nestjs/common';
import { BOARD_MOUNT, BOARD_SETTINGS, createBoardController } from './board.controller.js';
import {
  mountOf,
  readAsyncOptions,
  readBoardOptions,
  type RedisLockBoardAsyncOptions,
  type RedisLockBoardFactoryOptions,
  type RedisLockBoardOptions,
  settingsOf,
} from './board.options.js';

/**
 * A page that shows the locks of the app: who holds what, who waits, and what was lost. Import it next to `RedisLockModule`, with
 * a guard that decides who may open it.
 */
@Module({})
export class RedisLockBoardModule {
  /**
   * Mounts a board with options that are known now. Without a `guard`, it needs `unguarded: true`.
   * @throws LockConfigurationError
   */
  static forRoot(options: RedisLockBoardOptions): DynamicModule {
    const { actions, refreshMs, ...mount } = readBoardOptions(options);
    const settings = settingsOf({ actions, refreshMs }, mount.connection);
    return moduleOf(mount, { provide: BOARD_SETTINGS, useValue: settings });
  }

  /**
   * The same with a factory, which sets `actions` and `refreshMs` when the app starts. Nest needs the other options earlier.
   * @throws LockConfigurationError
   */
  static forRootAsync(options: RedisLockBoardAsyncOptions): DynamicModule {
    const { inject = [], useFactory, ...mount } = readAsyncOptions(options);
    const settings = async (...args: unknown[]) => {
      const own: RedisLockBoardFactoryOptions = await useFactory(...args);
      return settingsOf(own, mount.connection);
    };
    return moduleOf(mount, { provide: BOARD_SETTINGS, useFactory: settings, inject });
  }
}

function moduleOf(
  { imports = [], ...options }: Omit<RedisLockBoardOptions, 'actions'>,
  settings: Provider,
): DynamicModule {
  const mount = mountOf(options);
  return {
    module: RedisLockBoardModule,
    imports,
    controllers: [createBoardController(mount)],
    providers: [settings, { provide: BOARD_MOUNT, useValue: mount }],
  };
}
