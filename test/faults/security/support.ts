import { inspect } from 'node:util';
import { Logger } from '@nestjs/common';
import { type Redis } from 'ioredis';

/** As hostile to a URL as it may be. */
export const PASSWORD = 'pa55:w0rd@/?#%';
export const SECRET = /pa55/;

/** What was logged since, by the library or past it to the console. */
export function spyOnLogs(): { readonly lines: () => string[]; readonly warnings: () => string[] } {
  const methods = ['log', 'warn', 'error', 'debug', 'verbose', 'fatal'] as const;
  const ours = methods.map((method) => jest.spyOn(Logger.prototype, method));
  const consoles = (['log', 'info', 'warn', 'error', 'debug'] as const).map((method) =>
    jest.spyOn(console, method).mockImplementation(() => undefined),
  );
  const textOf = (spies: readonly { mock: { calls: unknown[][] } }[]) =>
    spies.flatMap(({ mock }) => mock.calls.map((args) => inspect(args, { depth: Infinity })));
  return { lines: () => textOf([...ours, ...consoles]), warnings: () => textOf([ours[1]!, consoles[2]!]) };
}

/** Gives the user `locks` these permissions, and no others. */
export const allow = (admin: Redis, rights: readonly string[]): Promise<unknown> =>
  admin.call('ACL', 'SETUSER', 'locks', 'reset', 'on', `>${PASSWORD}`, ...rights);

/** Connects as that user. */
export const asLocks = (port: number) => ({ port, username: 'locks', password: PASSWORD });
