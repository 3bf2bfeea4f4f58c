import { EventEmitter } from 'node:events';
import { type SimProcess } from '../world/sim-process.js';

/** A command that has been called, and not been answered. */
export interface Item {
  readonly name: string;
  readonly args: readonly unknown[];
  readonly resolve: (reply: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The methods of a client that send a command. */
export abstract class RedisCommands extends EventEmitter {
  abstract readonly options: { readonly commandTimeout?: number };

  constructor(protected readonly process: SimProcess) {
    super();
  }

  abstract sendCommand(item: Item): void;

  evalsha(...args: readonly unknown[]): Promise<unknown> {
    return this.command('evalsha', ...args);
  }

  /** A simulated address leads to one server. The scripts that ask for that are not sent: they would change the plans of all seeds. */
  eval(...args: readonly unknown[]): Promise<unknown> {
    if (String(args[0]).includes("redis.pcall('INFO'")) return Promise.resolve('');
    return this.command('eval', ...args);
  }

  info(...args: readonly unknown[]): Promise<string> {
    return this.command('info', ...args);
  }

  call(name: string, ...args: readonly unknown[]): Promise<unknown> {
    return this.command(name.toLowerCase(), ...args);
  }

  ping(): Promise<unknown> {
    return this.command('ping');
  }

  time(): Promise<[string, string]> {
    return this.command('time');
  }

  wait(...args: readonly unknown[]): Promise<number> {
    return this.command('wait', ...args);
  }

  protected command(name: string, ...args: readonly unknown[]): Promise<any> {
    return new Promise((resolve, reject) => {
      const { commandTimeout } = this.options;
      const onLate = (): void => reject(new Error('Command timed out'));
      const cancel = commandTimeout ? this.process.clock.setTimer(onLate, commandTimeout) : undefined;
      const end =
        <T>(settle: (value: T) => void) =>
        (value: T): void => (cancel?.(), settle(value));
      this.sendCommand({ name, args, resolve: end(resolve), reject: end(reject) });
    });
  }
}
