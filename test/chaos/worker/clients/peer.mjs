// What the adapters of other lock packages share. They come from test/chaos/peers, which has a separate installation.
import { once } from 'node:events';
import { createRequire } from 'node:module';

export const requirePeer = createRequire(new URL('../../peers/package.json', import.meta.url));

const { Redis } = requirePeer('ioredis');

/** A connection for each server, as the documents of both packages show, with a short pause before it connects again. */
export function connectAll(connection) {
  const clients = [connection].flat().map((url) => new Redis(url, { retryStrategy: () => 50 }));
  for (const client of clients) client.on('error', () => undefined);
  const close = async () => {
    const ended = clients.filter(({ status }) => status !== 'end').map((client) => once(client, 'end'));
    for (const client of clients) client.disconnect();
    await Promise.all(ended);
  };
  return { clients, close };
}
