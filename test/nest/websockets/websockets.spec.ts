import { Injectable, Scope, UseFilters, UseGuards, UsePipes } from '@nestjs/common';
import {
  BaseWsExceptionFilter,
  ConnectedSocket,
  MessageBody,
  SubscribeMessage,
  WebSocketGateway,
  WsException,
} from '@nestjs/websockets';
import { type WebSocket } from 'ws';
import { currentLock, Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { expectOneAtATime, marks, refuses, startTwo, Work } from '../support/transports.js';
import { type Answer, type GatewayApp, ask, connect, startGateways } from '../support/transports-ws.js';

interface Order {
  id: string;
  refusedBy?: string;
}

@WebSocketGateway()
class Orders {
  constructor(private readonly work: Work) {}

  @SubscribeMessage('above')
  @Locked('order:<0.id>')
  async above(@MessageBody() order: Order): Promise<Answer> {
    return { event: 'done', data: await this.work.run(order.id) };
  }

  @Locked('order:<1>')
  @SubscribeMessage('below')
  async below(@ConnectedSocket() client: WebSocket, @MessageBody('id') id: string): Promise<Answer> {
    const data = await this.work.run(id);
    return { event: 'done', data: client.readyState === client.OPEN ? data : 'no socket' };
  }

  @SubscribeMessage('without parameter decorators')
  @Locked('order:<1.id>')
  async plain(_client: WebSocket, order: Order): Promise<Answer> {
    return { event: 'done', data: await this.work.run(order.id) };
  }

  @SubscribeMessage('busy')
  @Locked('order:<0.id>', { ifBusy: 'throw' })
  async busy(@MessageBody() _order: Order): Promise<void> {}

  @SubscribeMessage('skip')
  @Locked('order:<0.id>', { ifBusy: 'skip' })
  async skip(@MessageBody() _order: Order): Promise<Answer | undefined> {
    return { event: 'done', data: currentLock().key };
  }
}

@Injectable({ scope: Scope.REQUEST })
@WebSocketGateway()
class PerRequest {
  static built = 0;

  constructor(private readonly work: Work) {
    PerRequest.built += 1;
  }

  @SubscribeMessage('per request')
  @Locked('order:<0.id>')
  async run(@MessageBody() order: Order): Promise<Answer> {
    return { event: 'done', data: await this.work.run(order.id) };
  }
}

@WebSocketGateway()
@UseGuards(refuses('class'))
@UsePipes(marks('class'))
class Checked {
  constructor(private readonly work: Work) {}

  @SubscribeMessage('checked above')
  @UseGuards(refuses('method'))
  @UsePipes(marks('method'))
  @Locked('order:<0>')
  async above(@MessageBody('id', marks('parameter')) id: string): Promise<Answer> {
    return { event: 'done', data: await this.work.run(id) };
  }

  @Locked('order:<0>')
  @UsePipes(marks('method'))
  @UseGuards(refuses('method'))
  @SubscribeMessage('checked below')
  async below(@MessageBody('id', marks('parameter')) id: string): Promise<Answer> {
    return { event: 'done', data: await this.work.run(id) };
  }
}

const ERRORS: Record<string, () => Error> = {
  WsException: () => new WsException({ code: 7, message: 'sold out' }),
  Error: () => new Error('secret'),
};

/** The cause names the event, which is not the same one for all handlers of the test. */
@WebSocketGateway()
@UseFilters(new BaseWsExceptionFilter({ includeCause: false }))
class Failures {
  @SubscribeMessage('fails unlocked')
  async unlocked(@MessageBody('name') name: string): Promise<void> {
    throw ERRORS[name]!();
  }

  @SubscribeMessage('fails above')
  @Locked('order:<0>')
  async above(@MessageBody('name') name: string): Promise<void> {
    throw ERRORS[name]!();
  }

  @Locked('order:<0>')
  @SubscribeMessage('fails below')
  async below(@MessageBody('name') name: string): Promise<void> {
    throw ERRORS[name]!();
  }
}

const startGateway = (work = new Work()): Promise<GatewayApp> =>
  startGateways([Orders, PerRequest, Checked, Failures], work);

afterEach(closeAll);

describe('a message handler', () => {
  const handlers = ['above', 'below', 'without parameter decorators', 'per request'];

  it.each(handlers)('(lock: %s) answers under the key of its body', async (event) => {
    const gateway = await startGateway();
    gateway.work.finish();
    expect(await ask(gateway, event, { id: '7' })).toEqual({ event: 'done', data: 'order:7' });
    expect(gateway.acquired).toEqual(['order:7']);
  });

  it.each(handlers)('(lock: %s) runs on one of two instances at a time', async (event) => {
    await expectOneAtATime(await startTwo(startGateway), (gateway, id) => ask(gateway, event, { id }));
  });

  it('runs one at a time for the messages of one socket, too', async () => {
    const gateway = await startGateway();
    const [{ received, send }, id] = [await connect(gateway), freshKey()];
    send('above', { id });
    send('above', { id });
    await untilWaiting(gateway, `order:${id}`);
    await gateway.work.untilStarted(id);
    expect(gateway.work.started(id)).toBe(1);
    gateway.work.finish();
    await eventually(() => received.length === 2);
    expect(gateway.work.overlapped(id)).toBe(false);
  });

  it('has an instance for each client in a request-scoped gateway', async () => {
    const gateway = await startGateway();
    gateway.work.finish();
    const before = PerRequest.built;
    for (const id of ['1', '2']) await ask(gateway, 'per request', { id });
    expect(PerRequest.built - before).toBe(2);
  });

  it.each(['checked above', 'checked below'])(
    '(%s) keeps its guards, and acquires nothing when they refuse',
    async (event) => {
      const gateway = await startGateway();
      for (const refusedBy of ['class', 'method']) {
        const refused = await ask(gateway, event, { id: freshKey(), refusedBy });
        expect(refused).toMatchObject({ event: 'exception', data: { message: 'Forbidden resource' } });
      }
      expect(gateway.acquired).toEqual([]);
    },
  );

  it.each(['checked above', 'checked below'])('(%s) locks what its pipes made of the body', async (event) => {
    const received = (id: string): string => `${id}+class+method+parameter`;
    await expectOneAtATime(await startTwo(startGateway), (gateway, id) => ask(gateway, event, { id }), received);
  });
});

describe('an error', () => {
  it.each(Object.keys(ERRORS))('%s of the method reaches the client as without a lock', async (name) => {
    const gateway = await startGateway();
    const unlocked = await ask(gateway, 'fails unlocked', { name });
    const message = name === 'Error' ? 'Internal server error' : 'sold out';
    expect(unlocked).toMatchObject({ event: 'exception', data: { message } });
    for (const how of ['above', 'below']) expect(await ask(gateway, `fails ${how}`, { name })).toEqual(unlocked);
  });

  it('LockBusyError reaches the client like any unknown error, without keys and holders', async () => {
    const gateway = await startGateway();
    const id = freshKey();
    await gateway.locks.acquire(`order:${id}`);
    const data = { status: 'error', message: 'Internal server error', cause: { pattern: 'busy', data: { id } } };
    expect(await ask(gateway, 'busy', { id })).toEqual({ event: 'exception', data });
  });

  it('of a message keeps the socket open, and a skipped message has no answer', async () => {
    const gateway = await startGateway();
    const [{ received, send }, id] = [await connect(gateway), freshKey()];
    const lock = await gateway.locks.acquire(`order:${id}`);
    const skipped: string[] = [];
    gateway.locks.events.on('skipped', ({ key }) => skipped.push(key));
    send('skip', { id });
    await eventually(() => skipped.length > 0);
    send('busy', { id });
    await eventually(() => received.length > 0);
    await lock.release();
    send('skip', { id });
    await eventually(() => received.length === 2);
    expect(received.map(({ event }) => event)).toEqual(['exception', 'done']);
  });
});
