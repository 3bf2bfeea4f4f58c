import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { closeLater } from '../../support/apps/lock-app.js';

/** Starts a server that accepts connections and never answers; returns its URL. `closeAll` ends it. */
export async function silentServer(): Promise<string> {
  const sockets = new Set<{ destroy(): unknown }>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closeLater({
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  });
  return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
