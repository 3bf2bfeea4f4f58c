import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { closeLater } from '../../support/apps/lock-app.js';

interface Asked {
  readonly path: string | undefined;
  readonly authorization: string | undefined;
  readonly body: unknown;
}

/** A server in place of the board of an app: it answers with a status and an object (null: only its beginning), and keeps what it was asked. */
export async function startBoard(status: number, answer: object | null = { isRunning: status === 202 }) {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    const { url: path, headers } = request;
    void text(request).then((body) => {
      asked.push({ path, authorization: headers.authorization, body: JSON.parse(body) });
      response.writeHead(status);
      if (answer) response.end(JSON.stringify(answer));
      else response.write('{');
    });
  });
  closeLater({
    close: async () => {
      server.closeAllConnections();
      await server[Symbol.asyncDispose]();
    },
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { asked, address: `127.0.0.1:${(server.address() as AddressInfo).port}/ops` };
}
