import { LockConfigurationError } from '../../core/lock.errors.js';
import { reasonOf } from '../../core/reporter.js';
import { type RedisNatMap } from './redis-connection.js';

/** Where a Redis server or a sentinel listens. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

/** Writes an address as ioredis does: `host:port`, also for an IPv6 address. */
export const addressText = ({ host, port }: Partial<ServerAddress>): string => `${host}:${port}`;

/** Whether two addresses have the same text. */
export const isSameAddress = (one: Partial<ServerAddress>, other: Partial<ServerAddress>): boolean =>
  one.host === other.host && String(one.port) === String(other.port);

/** Reads `host:port`. */
export function readAddress(text: string): ServerAddress {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon), port: Number(text.slice(colon + 1)) };
}

/** A node of a cluster omits its host, or sends `?` for a missing name: then it is at the host that was `asked`. */
export const namedBy = (asked: ServerAddress, host: string | null): string =>
  host === null || host === '' || host === '?' ? asked.host : host;

/**
 * Translates the address that servers announce to the one by which this process reaches the server.
 * @throws LockConfigurationError when a function of the application fails, or the result is not an address
 */
export function reachedBy(address: ServerAddress, natMap: RedisNatMap | undefined): ServerAddress {
  if (!natMap) return address;
  const announced = addressText(address);
  const text = `Expected \`natMap\` of \`connection\` to give { host, port }, or null for no change, for "${announced}"`;
  let mapped: Partial<ServerAddress> | null | undefined;
  try {
    mapped = typeof natMap === 'function' ? natMap(announced) : natMap[announced];
  } catch (cause) {
    throw new LockConfigurationError(`${text}, but it threw \`${reasonOf(cause)}\`.`, { cause });
  }
  if (mapped === null || mapped === undefined) return address;
  const [host, port] = [mapped.host, Number(mapped.port)];
  if (typeof host === 'string' && host !== '' && port > 0) return { host, port };
  throw new LockConfigurationError(`${text}, got { host: ${String(host)}, port: ${port} }.`);
}
