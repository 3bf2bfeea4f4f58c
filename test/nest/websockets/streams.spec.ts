import { ConnectedSocket, MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { Observable, Subject, map } from 'rxjs';
import { type WebSocket } from 'ws';
import { currentLock, Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { Work } from '../support/transports.js';
import { type Answer, ask, connect, startGateways } from '../support/transports-ws.js';

interface Order {
  id: string;
}

@WebSocketGateway()
class Steps {
  readonly source = new Subject<number>();

  constructor(private readonly work: Work) {}

  @SubscribeMessage('run')
  @Locked('order:<0.id>')
  async run(@MessageBody() order: Order): Promise<Answer> {
    return { event: 'done', data: await this.work.run(order.id) };
  }

  @SubscribeMessage('above')
  @Locked('order:<0.id>')
  above(@MessageBody() _order: Order): Observable<Answer> {
    return this.#underLock();
  }

  @Locked('order:<1>')
  @SubscribeMessage('below')
  below(@ConnectedSocket() _client: WebSocket, @MessageBody('id') _id: string): Observable<Answer> {
    return this.#underLock();
  }

  @SubscribeMessage('later')
  @Locked('order:<0.id>')
  async later(@MessageBody() _order: Order): Promise<Observable<Answer>> {
    return this.#underLock();
  }

  #underLock(): Observable<Answer> {
    const { key } = currentLock();
    return this.source.pipe(map((value) => ({ event: 'step', data: `${value} ${key}` })));
  }
}

/** Starts two instances, with a client of `a`, whose source goes on until the test ends it; the work of `b` ends at once. */
async function startTwo() {
  const work = new Work();
  work.finish();
  const [a, b, id] = [await startGateways([Steps], work), await startGateways([Steps], work), freshKey()];
  return { a, b, work, id, key: `order:${id}`, source: a.app.get(Steps).source, client: await connect(a) };
}

afterEach(closeAll);

describe('a message handler that returns an Observable', () => {
  const handlers = ['above', 'below', 'later'];

  it.each(handlers)('(%s) holds the lock until the last answer', async (event) => {
    const { a, b, work, id, key, source, client } = await startTwo();
    client.send(event, { id });
    await eventually(() => source.observed);
    const second = ask(b, 'run', { id });
    await untilWaiting(b, key);
    source.next(1);
    source.next(2);
    await eventually(() => client.received.length === 2);
    expect([await a.locks.isLocked(key), work.started(id)]).toEqual([true, 0]);
    source.complete();
    expect((await second).data).toBe(key);
    expect(client.received.map(({ data }) => data)).toEqual([`1 ${key}`, `2 ${key}`]);
  });

  it.each(handlers)('(%s) releases the lock when its client goes', async (event) => {
    const { b, id, key, source, client } = await startTwo();
    client.send(event, { id });
    await eventually(() => source.observed);
    client.close();
    expect(await ask(b, 'run', { id })).toEqual({ event: 'done', data: key });
    expect(source.observed).toBe(false);
  });

  it('does not run when its client went away during the wait', async () => {
    const { a, id, key, source, client } = await startTwo();
    const lock = await a.locks.acquire(key);
    client.send('above', { id });
    await untilWaiting(a, key);
    client.close();
    await untilWaiting(a, key, 0);
    await lock.release();
    expect([source.observed, a.acquired]).toEqual([false, [key]]);
  });
});
