import { EventEmitter } from 'node:events';
import { type Type } from '@nestjs/common';
import {
  type CustomTransportStrategy,
  type MessageHandler,
  Server,
  ServerGrpc,
  Transport,
} from '@nestjs/microservices';
import { type Instance, startInstance, Work } from './transports.js';

type Callback = (error: { code?: unknown; message?: string } | null, response: unknown) => void;

/** The methods of Nest's server that make a method of gRPC from a handler. */
interface Making {
  createRequestStreamMethod(handler: MessageHandler, streams: boolean): (call: Call, callback: Callback) => unknown;
  createUnaryServiceMethod(handler: MessageHandler): (call: Call, callback: Callback) => unknown;
}

/** A call as \@grpc/grpc-js makes it, as far as Nest and the library read it. */
class Call extends EventEmitter {
  readonly metadata = {};
  readonly written: unknown[] = [];
  constructor(readonly request?: object) {
    super();
  }
  write(value: unknown): boolean {
    return Boolean(this.written.push(value));
  }
  end(): void {
    this.emit('closed');
  }
  sendMetadata(): void {}
  getDeadline(): number {
    return Infinity;
  }
}

/** An instance with Nest's server for gRPC, but for the network: the methods are called with what \@grpc/grpc-js passes. */
export interface GrpcService extends Instance {
  /** A call that streams: `messages` are sent at once, the others by `send`. */
  stream(
    rpc: string,
    messages: readonly unknown[],
  ): { readonly send: (message: unknown) => void; readonly end: () => void; readonly result: Promise<unknown> };
  /** Gives the response, or the error that \@grpc/grpc-js sends. */
  readonly call: (rpc: string, request: object) => Promise<unknown>;
}

export async function startGrpc(controllers: readonly Type[]): Promise<GrpcService> {
  // The constructor would load \@grpc/grpc-js.
  const server = Reflect.construct(Server, [], ServerGrpc) as Server & Making;
  const listening = { transportId: Transport.GRPC, listen: (done: () => void) => done(), close: () => undefined };
  const strategy = Object.assign(server, listening) as Server & Making & CustomTransportStrategy;
  const instance = await startInstance({ controllers: [...controllers] }, new Work(), (app) => {
    app.connectMicroservice({ strategy }, { inheritAppConfig: true });
  });
  await instance.app.startAllMicroservices();
  const handlerOf = (rpc: string): MessageHandler => {
    const [, handler] = [...server.getHandlers()].find(([pattern]) => pattern.includes(`"rpc":"${rpc}"`))!;
    return handler;
  };
  const answered = (method: (call: Call, callback: Callback) => unknown, call: Call): Promise<unknown> =>
    new Promise((resolve) => void method(call, (error, response) => resolve(error ?? response)));
  return {
    ...instance,
    stream: (rpc, messages) => {
      const call = new Call();
      const result = answered(server.createRequestStreamMethod(handlerOf(rpc), false), call);
      const send = (message: unknown): unknown => call.emit('data', message);
      messages.forEach(send);
      return { send, end: () => call.emit('end'), result };
    },
    call: (rpc, request) => answered(server.createUnaryServiceMethod(handlerOf(rpc)), new Call(request)),
  };
}
