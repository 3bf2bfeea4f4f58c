import 'reflect-metadata';
import {
  type DynamicModule,
  Inject,
  Injectable,
  Module,
  type OnApplicationBootstrap,
  type Provider,
} from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { LockConfigurationError } from './core/lock.errors.js';
import { getLockInterceptorToken, IN_A_TEST } from './redis-lock.tokens.js';

/**
 * Refuses a second module of the same name in an app. Nest makes a separate module of each call of `forRoot`, with its own
 * watchdog and connections, and the order of imports would decide which of them a decorator gets.
 * @throws LockConfigurationError that names the modules that import them
 */
export function checkRegisteredOnce(modules: Pick<ModulesContainer, 'values'>, name: string | undefined): void {
  const all = [...modules.values()];
  const token = getLockInterceptorToken(name);
  const count = all.filter(({ providers }) => providers.has(token)).length;
  if (count < 2) return;
  const importers = all.filter(({ metatype }) => imports(metatype, token)).map((module) => module.name);
  const where = importers.length > 0 ? ` (by ${importers.join(', ')})` : '';
  throw new LockConfigurationError(
    `RedisLockModule is registered ${count} times ${name === undefined ? 'without a name' : `as "${name}"`}${where}. Call ` +
      'forRoot() once, in the root module, because it is global; or share its result; or give each its own `name`, ' +
      "and name it in the decorators: `connection: '<name>'`.",
  );
}

/** Refuses the bare module, without forRoot() or forRootAsync(). */
export function refuseBareImport(): never {
  throw new LockConfigurationError(
    'A module imports RedisLockModule directly, without options, so the place of the locks is not set. Call forRoot() ' +
      'once, in the root module: `imports: [RedisLockModule.forRoot({ connection })]`. It is global, so no other module has ' +
      'to import it; ' +
      `${IN_A_TEST}.`,
  );
}

/** Whether a module imports ours, according to its decorator: at run time, all modules import a global one. */
function imports(metatype: object, token: symbol): boolean {
  const imported = (Reflect.getMetadata('imports', metatype) ?? []) as (Partial<DynamicModule> | undefined)[];
  const isOurs = (provider: Provider): boolean => (provider as { provide?: unknown }).provide === token;
  return imported.some((entry) => entry?.providers?.some(isOurs));
}

/**
 * Refuses options that depend on a request: each request would have its own connections, and Nest would not call the
 * hooks that close them.
 */
export function checkIsStatic(
  modules: Pick<ModulesContainer, 'values'>,
  options: unknown,
  name: string | undefined,
): void {
  const token = getLockInterceptorToken(name);
  const ours = [...modules.values()].find(({ providers }) => providers.has(token));
  if (ours?.providers.get(options as symbol)?.isDependencyTreeStatic() !== false) return;
  throw new LockConfigurationError(
    'The options of RedisLockModule.forRootAsync() depend on a request-scoped provider (such as REQUEST), so every ' +
      'request would have its own locks. Inject providers of the default scope only.',
  );
}

/** Calls back when the app has started: when all hooks `onApplicationBootstrap` are done. */
@Injectable()
export class AppStart implements OnApplicationBootstrap {
  readonly #callbacks: (() => void)[] = [];

  add(callback: () => void): void {
    this.#callbacks.push(callback);
  }

  onApplicationBootstrap(): void {
    for (const callback of this.#callbacks) callback();
  }
}

/** Nest calls hooks module by module, by their distance from the root, which has 1: this module is the last. */
@Module({ providers: [AppStart], exports: [AppStart] })
export class AppStartModule {
  constructor(@Inject(ModulesContainer) modules: ModulesContainer) {
    for (const module of modules.values()) if (module.metatype === AppStartModule) module.distance = -1;
  }
}
