import { type Server, type Socket, connect, createServer } from 'node:net';
import { FrameReader, commandText } from './resp-frames.js';

/** Answers a command (its words parted by blanks) instead of the server, in RESP; undefined: the server answers. */
export type Answer = (command: string) => string | undefined;

/** A server on this machine that passes for another one. */
export interface Disguise {
  readonly port: number;
  readonly url: string;
  /** The commands that came so far. */
  readonly commands: readonly string[];
  /** May be replaced at any time. */
  answer: Answer;
  close(): Promise<void>;
}

export const bulk = (text: string): string => `$${Buffer.byteLength(text)}\r\n${text}\r\n`;

/** A proxy in front of a server that gives some of its answers itself. */
export async function startDisguise(targetPort: number, answer: Answer): Promise<Disguise> {
  const commands: string[] = [];
  const sockets = new Set<Socket>();
  const server: Server = createServer((client) => {
    const target = connect({ port: targetPort, host: '127.0.0.1' });
    for (const socket of [client, target]) {
      sockets.add(socket.setNoDelay(true));
      socket.on('error', () => undefined).on('close', () => (client.destroy(), target.destroy()));
    }
    join(client, target, (command) => {
      commands.push(command);
      return disguise.answer(command);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const close = async (): Promise<void> => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  const disguise: Disguise = { port, url: `redis://127.0.0.1:${port}`, commands, answer, close };
  return disguise;
}

/** Answers come in the order of the commands, from the proxy or the server. */
function join(client: Socket, target: Socket, answer: Answer): void {
  /** What is owed for each command: a text, or the next answer of the server. */
  const owed: (string | null)[] = [];
  const [commands, replies] = [new FrameReader(), new FrameReader()];
  const giveOurs = (): void => {
    while (typeof owed[0] === 'string') client.write(owed.shift()!);
  };
  client.on('data', (bytes) => {
    for (const frame of commands.push(bytes)) {
      const ours = answer(commandText(frame));
      owed.push(ours ?? null);
      if (ours === undefined) target.write(frame.bytes);
    }
    giveOurs();
  });
  target.on('data', (bytes) => {
    for (const frame of replies.push(bytes)) {
      client.write(frame.bytes);
      // Messages of channels answer no command.
      if (frame.type !== '>') owed.shift();
      giveOurs();
    }
  });
}
