import { type AddressInfo, type Server } from 'node:net';
import { type Type } from '@nestjs/common';
import { type ClientProxy, ClientProxyFactory, Transport } from '@nestjs/microservices';
import { lastValueFrom } from 'rxjs';
import { closeLater } from '../../support/apps/lock-app.js';
import { type Instance, startInstance, Work } from './transports.js';

/** An instance that listens for messages, with its own client. */
export interface Service extends Instance {
  readonly client: ClientProxy;
}

export async function startService(controllers: readonly Type[], work = new Work()): Promise<Service> {
  const instance = await startInstance({ controllers: [...controllers] }, work);
  const options = { host: '127.0.0.1', port: 0 };
  const microservice = instance.app.connectMicroservice({ transport: Transport.TCP, options });
  await instance.app.startAllMicroservices();
  const { port } = microservice.unwrap<Server>().address() as AddressInfo;
  const client = ClientProxyFactory.create({ transport: Transport.TCP, options: { ...options, port } });
  closeLater({ close: async () => void client.close() });
  return { ...instance, client };
}

/** Sends a message, and gives the last value of the answer. */
export const send = ({ client }: Service, pattern: string, data: object): Promise<unknown> =>
  lastValueFrom(client.send<unknown>(pattern, data));

/** Sends a message, and gives all values of the answer and how it ended: its error, or 'completed'. */
export function collect({ client }: Service, pattern: string, data: object) {
  const values: unknown[] = [];
  const end = new Promise<unknown>((resolve) => {
    const answer = client.send<unknown>(pattern, data);
    answer.subscribe({ next: (value) => values.push(value), error: resolve, complete: () => resolve('completed') });
  });
  return { values, end };
}
