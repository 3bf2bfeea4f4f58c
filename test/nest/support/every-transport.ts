import {
  ConflictException,
  Controller,
  type ExecutionContext,
  Get,
  Injectable,
  Param,
  type PipeTransform,
  Req,
  type Scope,
  type Type,
} from '@nestjs/common';
import { Args, Context, Mutation, Query, Resolver } from '@nestjs/graphql';
import { Ctx, MessagePattern, Payload, RpcException } from '@nestjs/microservices';
import { ConnectedSocket, MessageBody, SubscribeMessage, WebSocketGateway, WsException } from '@nestjs/websockets';
import { GraphQLError } from 'graphql';
import { type Platform, startRequests } from './requests.js';
import { type Instance, Work } from './transports.js';
import { ask as askGraphql, startGraphql } from './transports-graphql.js';
import { collect, startService } from './transports-tcp.js';
import { ask as askSocket, startGateways } from './transports-ws.js';

/** An instance whose handlers have a client. */
export interface TransportApp extends Instance {
  /** Calls a handler, and returns its last value, or `{ failed }` with the error of the client. */
  readonly call: (handler: string, id: string) => Promise<unknown>;
}

/** How handlers are declared on a transport, and how they are called. */
export interface Transport {
  readonly declares: (scope?: Scope) => ClassDecorator;
  readonly handles: (name: string) => MethodDecorator;
  /** The parameter with the id of the message. */
  readonly id: (...pipes: Type<PipeTransform>[]) => ParameterDecorator;
  /** A parameter with what surrounds the message. */
  readonly context: () => ParameterDecorator;
  /** What `LockInterceptor.for` gets for the key `order:` and the id. */
  readonly key: string;
  /** An error that reaches the clients as it is. */
  readonly exception: () => Error;
  readonly start: (types: readonly Type[], work?: Work) => Promise<TransportApp>;
}

/** Makes a class a provider with this scope, and with its further roles. */
const provider =
  (declare: () => ClassDecorator): Transport['declares'] =>
  (scope) =>
  (type) => {
    for (const decorate of [declare(), Injectable({ scope })]) decorate(type);
  };

const http = (platform: Platform): Transport => ({
  declares: (scope) => Controller({ scope }),
  handles: (name) => Get(`${name}/:id`),
  id: (...pipes) => Param('id', ...pipes),
  context: () => Req(),
  key: 'order:<0.params.id>',
  exception: () => new ConflictException('sold out'),
  start: async (types, work) => {
    const app = await startRequests(platform, { controllers: [...types] }, { work, prepare: () => undefined });
    const call: TransportApp['call'] = async (handler, id) => {
      const { status, text } = await app.get(`${handler}/${id}`);
      return status < 400 ? text : { failed: JSON.parse(text) as unknown };
    };
    return { ...app, call };
  },
});

export const microservices: Transport = {
  declares: (scope) => Controller({ scope }),
  handles: (name) => MessagePattern(name),
  id: (...pipes) => Payload('id', ...pipes),
  context: () => Ctx(),
  key: 'order:<0.id>',
  exception: () => new RpcException({ code: 7, message: 'sold out' }),
  start: async (types, work) => {
    const service = await startService(types, work);
    const call: TransportApp['call'] = async (handler, id) => {
      const { values, end } = collect(service, handler, { id });
      const ended = await end;
      return ended === 'completed' ? values.at(-1) : { failed: ended };
    };
    return { ...service, call };
  },
};

export const webSockets: Transport = {
  declares: provider(() => WebSocketGateway()),
  handles: (name) => SubscribeMessage(name),
  id: (...pipes) => MessageBody('id', ...pipes),
  context: () => ConnectedSocket(),
  key: 'order:<1.id>',
  exception: () => new WsException({ code: 7, message: 'sold out' }),
  start: async (types, work) => {
    const gateway = await startGateways(types, work);
    const call: TransportApp['call'] = async (handler, id) => {
      const answer = await askSocket(gateway, handler, { id });
      return answer.event === 'exception' ? { failed: answer.data } : answer;
    };
    return { ...gateway, call };
  },
};

/** Apollo starts no schema without a query. */
@Resolver()
class OneQuery {
  @Query(() => Boolean)
  isStarted(): boolean {
    return true;
  }
}

const graphql: Transport = {
  declares: provider(() => Resolver()),
  handles: (name) => Mutation(() => String, { name, nullable: true }),
  id: (...pipes) => Args('id', ...pipes),
  context: () => Context(),
  key: 'order:<1.id>',
  exception: () => new GraphQLError('sold out', { extensions: { code: 'SOLD_OUT' } }),
  start: async (types, work) => {
    const app = await startGraphql([...types, OneQuery], work);
    const call: TransportApp['call'] = async (handler, id) => {
      const { data, errors } = await askGraphql(app, `mutation ($id: String!) { answer: ${handler}(id: $id) }`, { id });
      return errors ? { failed: errors[0] } : data!['answer'];
    };
    return { ...app, call };
  },
};

/** The transports by their names. */
export const TRANSPORTS: readonly (readonly [string, Transport])[] = Object.entries({
  express: http('express'),
  fastify: http('fastify'),
  microservices,
  WebSockets: webSockets,
  GraphQL: graphql,
});

/** Of a message, wherever the transport keeps it. */
export function idOf(context: ExecutionContext): string {
  const [first, second] = context.getArgs<({ id?: string; params?: { id: string } } | null | undefined)[]>();
  return first?.params?.id ?? first?.id ?? second!.id!;
}
