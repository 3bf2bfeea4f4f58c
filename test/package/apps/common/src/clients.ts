// The locks on every kind of client that changes what ioredis sends or returns.
import { type RedisOptions } from 'ioredis';

/** `object`: not all of it is known to the types of every version. */
const OPTIONS: Record<string, object> = {
  stringNumbers: { stringNumbers: true },
  enableAutoPipelining: { enableAutoPipelining: true },
  lazyConnect: { lazyConnect: true },
};

const SINCE_6: Record<string, object> = { "replyMapping: 'resp3'": { replyMapping: 'resp3' } };

export interface ClientVariant {
  readonly name: string;
  readonly options: RedisOptions;
  readonly givesClient: boolean;
}

/** Every variant, as options for the module and as a client that the app gives. */
export function clientVariants(ioredisVersion: string): ClientVariant[] {
  const isSix = Number(ioredisVersion.split('.')[0]) >= 6;
  const single: Record<string, object> = { ...OPTIONS, ...(isSix ? SINCE_6 : {}) };
  const together: object = Object.assign({}, ...Object.values(single));
  const older: Record<string, object> = isSix ? { 'protocol: 2': { protocol: 2 } } : {};
  return Object.entries({ ...single, 'all of them together': together, ...older }).flatMap(([name, options]) =>
    [false, true].map((givesClient) => ({
      name: `${name}, as ${givesClient ? 'a client' : 'options'}`,
      options: options as RedisOptions,
      givesClient,
    })),
  );
}
