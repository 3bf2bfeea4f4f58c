import { type NatMap } from 'ioredis';

/** Where a server of Redis, or a sentinel, listens. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

/** Writes an address as ioredis does: `host:port`, also where the host is an IPv6 address. */
export const addressText = ({ host, port }: { readonly host?: string; readonly port?: number }): string =>
  `${host}:${port}`;

/** Reads `host:port`. */
export function readAddress(text: string): ServerAddress {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon), port: Number(text.slice(colon + 1)) };
}

/** The address by which a server is reached, of the one that servers tell each other. */
export function reachedBy(address: ServerAddress, natMap: NatMap | undefined): ServerAddress {
  const told = addressText(address);
  return (typeof natMap === 'function' ? natMap(told) : natMap?.[told]) ?? address;
}
