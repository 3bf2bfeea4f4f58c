import { type Type } from '@nestjs/common';
import { WsAdapter } from '@nestjs/platform-ws';
import { type WsResponse } from '@nestjs/websockets';
import { WebSocket } from 'ws';
import { eventually } from '../../support/waiting/eventually.js';
import { closeLater } from '../../support/apps/lock-app.js';
import { type Instance, startInstance, Work } from './transports.js';

/** What a handler answers, and a client receives. */
export type Answer = WsResponse<unknown>;

export interface GatewayApp extends Instance {
  readonly url: string;
}

export async function startGateways(gateways: readonly Type[], work = new Work()): Promise<GatewayApp> {
  const instance = await startInstance({ providers: [...gateways] }, work, (app) => {
    app.useWebSocketAdapter(new WsAdapter(app));
  });
  return { ...instance, url: (await instance.app.getUrl()).replace('http', 'ws') };
}

/** A socket that keeps what it receives. */
export interface Client {
  readonly received: readonly Answer[];
  readonly send: (event: string, data: object) => void;
  readonly close: () => void;
}

export async function connect({ url }: GatewayApp): Promise<Client> {
  const socket = new WebSocket(url);
  socket.on('error', () => undefined);
  closeLater({ close: async () => socket.terminate() });
  const received: Answer[] = [];
  socket.on('message', (message: Buffer) => received.push(JSON.parse(message.toString()) as Answer));
  await eventually(() => socket.readyState === WebSocket.OPEN);
  return {
    received,
    send: (event, data) => socket.send(JSON.stringify({ event, data })),
    close: () => socket.close(),
  };
}

/** Sends a message on a new socket, and returns the first answer. */
export async function ask(gateway: GatewayApp, event: string, data: object): Promise<Answer> {
  const { received, send } = await connect(gateway);
  send(event, data);
  return eventually(() => received[0]);
}
