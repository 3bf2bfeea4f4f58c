import { once } from 'node:events';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import { type Type } from '@nestjs/common';
import { GraphQLModule } from '@nestjs/graphql';
import { WebSocket } from 'ws';
import { eventually } from '../../support/waiting/eventually.js';
import { closeLater } from '../../support/apps/lock-app.js';
import { type Instance, startInstance, Work } from './transports.js';

/** An instance that answers GraphQL over HTTP. */
export interface GraphqlApp extends Instance {
  readonly url: string;
}

interface Answer {
  readonly data?: Record<string, unknown> | null;
  readonly errors?: readonly unknown[];
}

export async function startGraphql(resolvers: readonly Type[], work = new Work()): Promise<GraphqlApp> {
  const options = {
    driver: ApolloDriver,
    autoSchemaFile: true,
    playground: false,
    subscriptions: { 'graphql-ws': true },
  };
  const imports = [GraphQLModule.forRoot<ApolloDriverConfig>(options)];
  const instance = await startInstance({ imports, providers: [...resolvers] }, work);
  return { ...instance, url: `${await instance.app.getUrl()}/graphql` };
}

export async function ask({ url }: GraphqlApp, query: string, variables: object = {}): Promise<Answer> {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ query, variables }) });
  return (await answer.json()) as Answer;
}

/** Subscribes as `graphql-ws` does: https://github.com/enisdenjo/graphql-ws/blob/master/PROTOCOL.md */
export async function subscribe({ url }: GraphqlApp, query: string) {
  const socket = new WebSocket(url.replace('http', 'ws'), 'graphql-transport-ws');
  socket.on('error', () => undefined);
  const closed = once(socket, 'close');
  closeLater({ close: async () => socket.terminate() });
  const messages: { type: string; payload?: unknown }[] = [];
  socket.on('message', (message: Buffer) => messages.push(JSON.parse(message.toString()) as (typeof messages)[number]));
  await eventually(() => socket.readyState === WebSocket.OPEN);
  const send = (message: object): void => socket.send(JSON.stringify(message));
  const payloads = (type: string) => messages.filter((message) => message.type === type).map(({ payload }) => payload);
  send({ type: 'connection_init' });
  await eventually(() => payloads('connection_ack').length > 0);
  send({ id: '1', type: 'subscribe', payload: { query } });
  return {
    values: () => payloads('next'),
    isComplete: () => payloads('complete').length > 0,
    close: () => socket.close(),
    closed,
  };
}
