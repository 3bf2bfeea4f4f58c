import { createServer, type Server } from 'node:net';
import { closeLater } from '../../../support/apps/lock-app.js';

/** A port where a Redis could be, which counts its connections. */
export interface Trap {
  readonly url: string;
  readonly connections: () => number;
}

/** Listens at the address in the options of the real module, and never answers. */
export async function startTrap(): Promise<Trap> {
  let count = 0;
  const server: Server = createServer((socket) => {
    count += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  closeLater({ close: () => new Promise<void>((resolve) => server.close(() => resolve())) });
  return { url: `redis://127.0.0.1:${port}`, connections: () => count };
}
