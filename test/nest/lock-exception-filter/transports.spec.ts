import { hostname } from 'node:os';
import { Controller, UseFilters, UseInterceptors } from '@nestjs/common';
import { Args, Mutation, Query, Resolver } from '@nestjs/graphql';
import { EventPattern, MessagePattern } from '@nestjs/microservices';
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Limited, Locked, LockExceptionFilter, LockInterceptor } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { ask as askGraphql, startGraphql } from '../support/transports-graphql.js';
import { collect, send, startService } from '../support/transports-tcp.js';
import { type Answer, ask as askSocket, connect, startGateways } from '../support/transports-ws.js';

const OPTIONS = { retryAfterMs: 2_500 };
const TOLD = {
  statusCode: 423,
  code: 'LOCK_BUSY',
  error: 'Locked',
  message: 'This is in use at the moment; try again.',
  retryAfterMs: 2_500,
};

@Controller()
@UseFilters(new LockExceptionFilter(OPTIONS))
class Messages {
  @MessagePattern('busy')
  @UseInterceptors(LockInterceptor.for('order:<0.id>', { ifBusy: 'throw' }))
  busy(): string {
    return 'ran';
  }

  @MessagePattern('busy method')
  @Locked('order:<0.id>', { ifBusy: 'throw' })
  async busyMethod(_order: { id: string }): Promise<string> {
    return 'ran';
  }

  @MessagePattern('conflict')
  @UseInterceptors(LockInterceptor.for('order:<0.id>', { ifBusy: 'throw', status: 409 }))
  conflict(): string {
    return 'ran';
  }

  @MessagePattern('limited')
  @Limited('order:<0.id>', 1, { ifBusy: 'throw' })
  async limited(_order: { id: string }): Promise<string> {
    return 'ran';
  }

  @EventPattern('busy event')
  @UseInterceptors(LockInterceptor.for('order:<0.id>', { ifBusy: 'throw' }))
  busyEvent(_order: object): void {}

  @MessagePattern('fails')
  fails(): never {
    throw new Error('secret');
  }
}

@WebSocketGateway()
@UseFilters(new LockExceptionFilter(OPTIONS))
class Gateway {
  @SubscribeMessage('busy')
  @UseInterceptors(LockInterceptor.for('order:<1.id>', { ifBusy: 'throw' }))
  busy(): Answer {
    return { event: 'done', data: 'ran' };
  }

  @SubscribeMessage('conflict')
  @UseInterceptors(LockInterceptor.for('order:<1.id>', { ifBusy: 'throw', status: 409 }))
  conflict(): Answer {
    return { event: 'done', data: 'ran' };
  }

  @SubscribeMessage('limited')
  @UseInterceptors(LockInterceptor.for('order:<1.id>', { mode: 'read', permits: 1, ifBusy: 'throw' }))
  limited(): Answer {
    return { event: 'done', data: 'ran' };
  }

  @SubscribeMessage('fails')
  fails(): never {
    throw new Error('secret');
  }
}

@Resolver()
@UseFilters(new LockExceptionFilter(OPTIONS))
class Orders {
  @Mutation(() => String)
  @UseInterceptors(LockInterceptor.for('order:<1.id>', { ifBusy: 'throw' }))
  busy(@Args('id') _id: string): string {
    return 'ran';
  }

  @Mutation(() => String)
  @UseInterceptors(LockInterceptor.for('order:<1.id>', { ifBusy: 'throw', status: 409 }))
  conflict(@Args('id') _id: string): string {
    return 'ran';
  }

  @Mutation(() => String)
  @UseInterceptors(LockInterceptor.for('order:<1.id>', { mode: 'read', permits: 1, ifBusy: 'throw' }))
  limited(@Args('id') _id: string): string {
    return 'ran';
  }

  /** Apollo starts no schema without a query. */
  @Query(() => String)
  fails(): string {
    throw new Error('reason');
  }
}

/** The answer to a busy lock, without its status. */
const CONFLICT = { ...TOLD, statusCode: 409, error: 'Conflict' };
const TOO_MANY = { ...TOLD, statusCode: 429, error: 'Too Many Requests' };
const MISSING = {
  statusCode: 400,
  error: 'Bad Request',
  code: 'LOCK_KEY',
  message: 'The request lacks a value that it has to have, or has a wrong one.',
};

/** That an answer has nothing of the key, the host or the process. */
function expectNothingOf(id: string, answer: unknown): void {
  const text = JSON.stringify(answer);
  for (const secret of [id, 'order:', hostname(), `:${process.pid}`]) expect(text).not.toContain(secret);
}

afterEach(closeAll);

describe('LockExceptionFilter on a microservice', () => {
  it.each(['busy', 'busy method'])('(%s) tells the client to try again', async (pattern) => {
    const [service, id] = [await startService([Messages]), freshKey()];
    const lock = await service.locks.acquire(`order:${id}`);
    const told = await collect(service, pattern, { id }).end;
    expect(told).toEqual({ status: 'error', ...TOLD });
    expectNothingOf(id, told);
    await lock.release();
    expect(await send(service, pattern, { id })).toBe('ran');
  });

  it('tells the status of the handler, of permits, and of a key that cannot be filled', async () => {
    const [service, id] = [await startService([Messages]), freshKey()];
    await service.locks.acquire(`order:${id}`, { mode: 'read' });
    const ask = (pattern: string, order: object) => collect(service, pattern, order).end;
    expect(await ask('conflict', { id })).toEqual({ status: 'error', ...CONFLICT });
    expect(await ask('limited', { id })).toEqual({ status: 'error', ...TOO_MANY });
    expect(await ask('busy', {})).toEqual({ status: 'error', ...MISSING });
    // The key of a method is not one of the request.
    expect(await ask('busy method', {})).toEqual({ status: 'error', message: 'Internal server error' });
  });

  it('leaves other errors unchanged, and survives a busy event', async () => {
    const [service, id] = [await startService([Messages]), freshKey()];
    await service.locks.acquire(`order:${id}`);
    const failed: string[] = [];
    service.locks.events.on('acquireFailed', ({ key }) => failed.push(key));
    service.client.emit('busy event', { id });
    await eventually(() => failed.length === 1);
    const told = await collect(service, 'fails', {}).end;
    expect(told).toEqual({ status: 'error', message: 'Internal server error' });
  });
});

describe('LockExceptionFilter on a WebSocket', () => {
  it('tells the client to try again, and keeps the socket open', async () => {
    const [gateway, id] = [await startGateways([Gateway]), freshKey()];
    const lock = await gateway.locks.acquire(`order:${id}`);
    const { received, send: tell } = await connect(gateway);
    tell('busy', { id });
    await eventually(() => received.length === 1);
    expect(received).toEqual([{ event: 'exception', data: { status: 'error', ...TOLD } }]);
    expectNothingOf(id, received);
    await lock.release();
    tell('busy', { id });
    await eventually(() => received.length === 2);
    expect(received[1]).toEqual({ event: 'done', data: 'ran' });
  });

  it('tells the status of the handler, of permits, and of a key that cannot be filled', async () => {
    const [gateway, id] = [await startGateways([Gateway]), freshKey()];
    await gateway.locks.acquire(`order:${id}`, { mode: 'read' });
    const told = (data: object) => ({ event: 'exception', data: { status: 'error', ...data } });
    expect(await askSocket(gateway, 'conflict', { id })).toEqual(told(CONFLICT));
    expect(await askSocket(gateway, 'limited', { id })).toEqual(told(TOO_MANY));
    expect(await askSocket(gateway, 'busy', {})).toEqual(told(MISSING));
  });

  it('leaves other errors unchanged', async () => {
    const { data } = await askSocket(await startGateways([Gateway]), 'fails', {});
    expect(data).toMatchObject({ message: 'Internal server error' });
    expect(data).not.toHaveProperty('retryAfterMs');
  });
});

describe('LockExceptionFilter on GraphQL', () => {
  it('tells the client to try again by the extensions of the error', async () => {
    const [graphql, id] = [await startGraphql([Orders]), freshKey()];
    const lock = await graphql.locks.acquire(`order:${id}`);
    const { data, errors } = await askGraphql(graphql, `mutation { busy(id: "${id}") }`);
    const { message, ...extensions } = TOLD;
    expect([data, errors]).toMatchObject([null, [{ message, path: ['busy'], extensions }]]);
    expectNothingOf(id, errors);
    await lock.release();
    expect(await askGraphql(graphql, `mutation { busy(id: "${id}") }`)).toEqual({ data: { busy: 'ran' } });
  });

  it('tells the status of the handler, of permits, and of a key that cannot be filled', async () => {
    const [graphql, id] = [await startGraphql([Orders]), freshKey()];
    await graphql.locks.acquire(`order:${id}`, { mode: 'read' });
    const told = async (mutation: string) => (await askGraphql(graphql, `mutation { ${mutation} }`)).errors;
    const of = ({ message, ...extensions }: Omit<typeof TOLD, 'retryAfterMs'>) => [{ message, extensions }];
    expect(await told(`conflict(id: "${id}")`)).toMatchObject(of(CONFLICT));
    expect(await told(`limited(id: "${id}")`)).toMatchObject(of(TOO_MANY));
    expect(await told(`busy(id: "")`)).toMatchObject(of(MISSING));
  });

  it('leaves other errors unchanged', async () => {
    const { errors } = await askGraphql(await startGraphql([Orders]), '{ fails }');
    expect(errors).toMatchObject([{ message: 'reason', extensions: { code: 'INTERNAL_SERVER_ERROR' } }]);
  });
});
