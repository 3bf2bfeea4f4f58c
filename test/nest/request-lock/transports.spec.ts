import { Controller, UseInterceptors } from '@nestjs/common';
import { Args, Mutation, Query, Resolver } from '@nestjs/graphql';
import { EventPattern, MessagePattern, Payload } from '@nestjs/microservices';
import { ConnectedSocket, MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { type Observable, Subject, map } from 'rxjs';
import { currentLock, Locked, LockInterceptor } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree, untilWaiting } from '../../support/waiting/waiters.js';
import { expectOneAtATime, startTwo, Work } from '../support/transports.js';
import { ask as askGraphql, type GraphqlApp, startGraphql } from '../support/transports-graphql.js';
import { collect, send, type Service, startService } from '../support/transports-tcp.js';
import { type Answer, ask as askSocket, connect, type GatewayApp, startGateways } from '../support/transports-ws.js';

interface Order {
  id: string;
}

@Controller()
class Messages {
  readonly source = new Subject<number>();

  constructor(private readonly work: Work) {}

  @MessagePattern('run')
  @UseInterceptors(LockInterceptor.for('order:<0.id>'))
  run(@Payload() { id }: Order): Promise<string> {
    return this.work.run(id);
  }

  @EventPattern('paid')
  @UseInterceptors(LockInterceptor.for('order:<0.id>'))
  async paid(@Payload() { id }: Order): Promise<void> {
    await this.work.run(id);
  }

  @MessagePattern('values')
  @UseInterceptors(LockInterceptor.for('order:<0.id>'))
  values(): Observable<string> {
    const { key } = currentLock();
    return this.source.pipe(map((value) => `${value} ${key}`));
  }

  @MessagePattern('skip')
  @UseInterceptors(LockInterceptor.for('order:<0.id>', { ifBusy: 'skip' }))
  skip(): string {
    return 'ran';
  }

  @MessagePattern('answer')
  @UseInterceptors(LockInterceptor.for('order:<0.id>', { ifBusy: (key: string, { id }: Order) => [key, id] }))
  answer(): string {
    return 'ran';
  }
}

@WebSocketGateway()
class Gateway {
  readonly source = new Subject<number>();

  constructor(private readonly work: Work) {}

  @SubscribeMessage('run')
  @UseInterceptors(LockInterceptor.for('order:<1.id>'))
  async run(@MessageBody() { id }: Order): Promise<Answer> {
    return { event: 'done', data: await this.work.run(id) };
  }

  @SubscribeMessage('values')
  @UseInterceptors(LockInterceptor.for('order:<1.id>'))
  values(@ConnectedSocket() _client: unknown): Observable<Answer> {
    const { key } = currentLock();
    return this.source.pipe(map((value) => ({ event: 'value', data: `${value} ${key}` })));
  }

  @SubscribeMessage('skip')
  @UseInterceptors(LockInterceptor.for('order:<1.id>', { ifBusy: 'skip' }))
  skip(): Answer {
    return { event: 'done', data: 'ran' };
  }
}

@Resolver()
class Orders {
  constructor(private readonly work: Work) {}

  @Mutation(() => String)
  @UseInterceptors(LockInterceptor.for('order:<1.id>'))
  run(@Args('id') id: string): Promise<string> {
    return this.work.run(id);
  }

  @Query(() => String, { nullable: true })
  @UseInterceptors(LockInterceptor.for('order:<1.id>', { ifBusy: 'skip' }))
  @Locked('order:<0>')
  async skip(@Args('id') id: string): Promise<string> {
    return `${id} ran`;
  }
}

const startMessages = (work: Work): Promise<Service> => startService([Messages], work);

const sourceOf = ({ app }: Service | GatewayApp, type: typeof Messages | typeof Gateway) => app.get(type).source;

afterEach(closeAll);

describe('LockInterceptor.for on a microservice', () => {
  it('runs one message per key at a time on two instances', async () => {
    await expectOneAtATime(await startTwo(startMessages), (service, id) => send(service, 'run', { id }));
  });

  it('runs one event per key at a time on two instances', async () => {
    await expectOneAtATime(await startTwo(startMessages), async ({ client }, id) => client.emit('paid', { id }));
  });

  it('is held until the last of several values', async () => {
    const [[a, b], id] = [await startTwo(startMessages), freshKey()];
    const [first, source] = [collect(a, 'values', { id }), sourceOf(a, Messages)];
    await eventually(() => source.observed);
    const second = collect(b, 'run', { id });
    await untilWaiting(a, `order:${id}`);
    for (const value of [1, 2]) source.next(value);
    await eventually(() => first.values.length === 2);
    expect(a.work.started(id)).toBe(0);
    source.complete();
    expect([await first.end, first.values]).toEqual(['completed', [`1 order:${id}`, `2 order:${id}`]]);
    b.work.finish();
    expect([await second.end, second.values]).toEqual(['completed', [`order:${id}`]]);
  });

  it('passes the error of a stream unchanged, and releases', async () => {
    const [service, id] = [await startService([Messages]), freshKey()];
    const { end } = collect(service, 'values', { id });
    const source = sourceOf(service, Messages);
    await eventually(() => source.observed);
    source.error(new Error('secret'));
    expect(await end).toMatchObject({ message: 'Internal server error' });
    await untilFree(service, `order:${id}`);
  });

  it('answers a skipped message with nothing, or with the result of the ifBusy function', async () => {
    const [service, id] = [await startService([Messages]), freshKey()];
    const lock = await service.locks.acquire(`order:${id}`);
    const skipped = collect(service, 'skip', { id });
    expect([await skipped.end, skipped.values.filter((value) => value !== undefined)]).toEqual(['completed', []]);
    expect(await send(service, 'answer', { id })).toEqual([`order:${id}`, id]);
    await lock.release();
    expect(await send(service, 'skip', { id })).toBe('ran');
  });

  it('rejects a message without the property for the key, and acquires nothing', async () => {
    const service = await startService([Messages]);
    await expect(send(service, 'skip', {})).rejects.toMatchObject({ message: 'Internal server error' });
    expect(service.acquired).toEqual([]);
  });
});

describe('LockInterceptor.for on a WebSocket', () => {
  it('runs one message per key at a time on two instances', async () => {
    await expectOneAtATime(await startTwo((work) => startGateways([Gateway], work)), (gateway, id) =>
      askSocket(gateway, 'run', { id }),
    );
  });

  it('is held until the last of several values', async () => {
    const [gateway, id] = [await startGateways([Gateway]), freshKey()];
    const [{ received, send: tell }, source] = [await connect(gateway), sourceOf(gateway, Gateway)];
    tell('values', { id });
    await eventually(() => source.observed);
    source.next(1);
    await eventually(() => received.length === 1);
    expect(await gateway.locks.isLocked(`order:${id}`)).toBe(true);
    source.next(2);
    source.complete();
    await eventually(() => received.length === 2);
    expect(received.map(({ data }) => data)).toEqual([`1 order:${id}`, `2 order:${id}`]);
    await untilFree(gateway, `order:${id}`);
  });

  it('does not answer a skipped message', async () => {
    const [gateway, id] = [await startGateways([Gateway]), freshKey()];
    const { received, send: tell } = await connect(gateway);
    const lock = await gateway.locks.acquire(`order:${id}`);
    const skipped: string[] = [];
    gateway.locks.events.on('skipped', ({ where }) => skipped.push(where ?? ''));
    tell('skip', { id });
    await eventually(() => skipped.length === 1);
    await lock.release();
    tell('skip', { id });
    await eventually(() => received.length > 0);
    expect(received).toEqual([{ event: 'done', data: 'ran' }]);
    expect(skipped).toEqual(['Gateway.skip']);
  });
});

describe('LockInterceptor.for on GraphQL', () => {
  const run = (graphql: GraphqlApp, id: string) => askGraphql(graphql, `mutation { run(id: "${id}") }`);

  it('runs one mutation per key at a time on two instances', async () => {
    await expectOneAtATime(await startTwo((work) => startGraphql([Orders], work)), run);
  });

  it('answers under the key of the arguments', async () => {
    const [graphql, id] = [await startGraphql([Orders]), freshKey()];
    graphql.work.finish();
    expect(await run(graphql, id)).toEqual({ data: { run: `order:${id}` } });
    expect(graphql.acquired).toEqual([`order:${id}`]);
  });

  it('answers null for a skipped field', async () => {
    const [graphql, id] = [await startGraphql([Orders]), freshKey()];
    const lock = await graphql.locks.acquire(`order:${id}`);
    expect(await askGraphql(graphql, `{ skip(id: "${id}") }`)).toEqual({ data: { skip: null } });
    await lock.release();
    expect(await askGraphql(graphql, `{ skip(id: "${id}") }`)).toEqual({ data: { skip: `${id} ran` } });
  });
});
