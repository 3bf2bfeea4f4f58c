import { type Socket, connect, createServer } from 'node:net';

const HOST = '127.0.0.1';

/** An address in front of servers, as a VIP, a proxy or a DNS name is: connections that exist stay where they lead. */
export interface Vip {
  readonly port: number;
  readonly url: string;
  /** The port to which new connections lead; with null they are accepted and never get an answer. */
  target: number | null;
  /** How long bytes take, each way. */
  delayMs: number;
  /** How many connections were accepted. */
  readonly accepted: number;
  /** Closes all existing connections to the servers without notifying the clients: what those send vanishes. */
  forget(matches?: (received: string) => boolean): number;
  close(): Promise<void>;
}

/** Whether a client has sent the command SUBSCRIBE: the text of a script, which has the word as well, does not count. */
export const hasSubscribed = (received: string): boolean => /\r\nsubscribe\r\n/i.test(received);

/** One connection, with everything that the client has sent, by which `forget` selects it. */
interface Link {
  readonly client: Socket;
  server: Socket | undefined;
  received: string;
}

/** Starts a VIP on a free port. */
export async function startVip(target: number | null): Promise<Vip> {
  const links = new Set<Link>();
  let accepted = 0;
  const server = createServer((client) => {
    accepted += 1;
    const link: Link = { client, received: '', server: undefined };
    links.add(link);
    if (vip.target !== null) join(link, vip.target, vip);
    client.on('data', (bytes) => {
      link.received += bytes.toString('latin1');
      later(vip, () => link.server?.writable && link.server.write(bytes));
    });
    client.on('error', () => undefined);
    client.on('close', () => {
      links.delete(link);
      link.server?.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, HOST, resolve));
  const { port } = server.address() as { port: number };
  const vip: Vip = {
    port,
    url: `redis://${HOST}:${port}`,
    target,
    delayMs: 0,
    get accepted() {
      return accepted;
    },
    forget(matches = () => true) {
      const forgotten = [...links].filter(({ server: to, received }) => to && matches(received));
      for (const link of forgotten) {
        const to = link.server;
        link.server = undefined;
        to?.destroy();
      }
      return forgotten.length;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const { client } of links) client.destroy();
      }),
  };
  return vip;
}

function join(link: Link, port: number, vip: Vip): void {
  const { client } = link;
  const server = connect({ host: HOST, port, noDelay: true });
  link.server = server;
  server.on('data', (bytes) => later(vip, () => link.server === server && client.writable && client.write(bytes)));
  server.on('error', () => undefined);
  // The client of a forgotten connection must not notice the close.
  server.on('close', () => link.server === server && client.destroy());
}

function later({ delayMs }: Vip, act: () => void): void {
  if (delayMs > 0) setTimeout(act, delayMs).unref();
  else act();
}
