import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net';
import { type StartedRedis } from '../../../scripts/redis.mjs';
import { closeLater } from '../apps/lock-app.js';

const HOST = '127.0.0.1';
/** Where the header of a message has the id of the node that sends it. */
const [ID_FROM, ID_TO] = [40, 80];

interface Link {
  readonly ends: readonly [Socket, Socket];
  readonly to: number;
  from?: string;
}

/** The bus between the nodes of a cluster. Clients and replicas do not use it. */
export interface ClusterBus {
  /** The port by which the others reach the bus of a node; for `startCluster`. */
  readonly announceBus: (port: number) => Promise<number>;
  /** Cuts a node off from all others, in both directions; null connects it again. */
  cutOff(node: { readonly id: string; readonly server: StartedRedis } | null): void;
}

/** Starts a bus on which a node can be cut off. */
export function startBus(): ClusterBus {
  const servers: Server[] = [];
  const links = new Set<Link>();
  let away: { readonly id: string; readonly port: number } | null = null;
  const isCut = ({ from, to }: Link) => away !== null && (from === away.id || to === away.port);
  const cut = () => {
    for (const link of links) if (isCut(link)) link.ends.forEach((end) => end.destroy());
  };
  const carry = (incoming: Socket, to: number): void => {
    const outgoing = connect(to, HOST);
    const link: Link = { ends: [incoming, outgoing], to };
    links.add(link);
    for (const [end, other] of [link.ends, link.ends.toReversed() as [Socket, Socket]]) {
      end.on('error', () => undefined);
      end.on('close', () => {
        links.delete(link);
        other.destroy();
      });
    }
    let head = Buffer.alloc(0);
    incoming.on('data', (bytes) => {
      head = Buffer.concat([head, bytes]);
      if (head.length < ID_TO && link.from === undefined) return;
      link.from ??= head.toString('latin1', ID_FROM, ID_TO);
      if (!isCut(link)) outgoing.write(head);
      head = Buffer.alloc(0);
      cut();
    });
    outgoing.on('data', (bytes) => void incoming.write(bytes));
    cut();
  };
  const close = async (): Promise<void> => {
    for (const server of servers) server.close();
    for (const { ends } of links) ends.forEach((end) => end.destroy());
  };
  return closeLater({
    announceBus: (port: number) =>
      new Promise<number>((resolve) => {
        const server = createServer((incoming) => carry(incoming, port));
        servers.push(server);
        server.listen(0, HOST, () => resolve((server.address() as AddressInfo).port));
      }),
    cutOff: (node: { readonly id: string; readonly server: StartedRedis } | null) => {
      away = node && { id: node.id, port: busPortOf(node.server) };
      cut();
    },
    close,
  });
}

const busPortOf = ({ args }: StartedRedis): number => Number(args[args.indexOf('--cluster-port') + 1]);
