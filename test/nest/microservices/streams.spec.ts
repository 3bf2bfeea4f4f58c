import { Controller, Scope } from '@nestjs/common';
import { EventPattern, MessagePattern, Payload, RpcException } from '@nestjs/microservices';
import { Observable, Subject, concat, map, of, throwError } from 'rxjs';
import { currentLock, Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { Work } from '../support/transports.js';
import { type Service, collect, send, startService } from '../support/transports-tcp.js';

interface Order {
  id: string;
}

@Controller()
class Steps {
  readonly source = new Subject<number>();

  constructor(private readonly work: Work) {}

  @MessagePattern('run')
  @Locked('order:<0.id>')
  run(@Payload() order: Order): Promise<string> {
    return this.work.run(order.id);
  }

  @MessagePattern('above')
  @Locked('order:<0.id>')
  above(@Payload() _order: Order): Observable<string> {
    return this.#underLock();
  }

  @Locked('order:<0.id>')
  @MessagePattern('below')
  below(@Payload() _order: Order): Observable<string> {
    return this.#underLock();
  }

  @MessagePattern('later')
  @Locked('order:<0.id>')
  async later(@Payload() _order: Order): Promise<Observable<string>> {
    return this.#underLock();
  }

  @EventPattern('event')
  @Locked('order:<0.id>')
  event(@Payload() _order: Order): Observable<string> {
    return this.#underLock();
  }

  #underLock(): Observable<string> {
    const { key } = currentLock();
    return this.source.pipe(map((value) => `${value} ${key}`));
  }
}

@Controller({ scope: Scope.REQUEST })
class PerRequest {
  @MessagePattern('per request')
  @Locked('order:<0.id>')
  steps(@Payload() _order: Order): Observable<string> {
    return of(1, 2).pipe(map((value) => `${value} ${currentLock().key}`));
  }
}

const ERRORS: Record<string, () => Error> = {
  RpcException: () => new RpcException({ code: 7, message: 'sold out' }),
  Error: () => new Error('secret'),
};

const failing = (name: string): Observable<string> => concat(of('first'), throwError(ERRORS[name]!));

@Controller()
class Failures {
  @MessagePattern('fails unlocked')
  unlocked(@Payload('name') name: string): Observable<string> {
    return failing(name);
  }

  @MessagePattern('fails locked')
  @Locked('order:<0>')
  locked(@Payload('name') name: string): Observable<string> {
    return failing(name);
  }
}

const start = (work = new Work()): Promise<Service> => startService([Steps, PerRequest, Failures], work);

/** Starts two instances: the source of `a` goes on until the test ends it, the work of `b` ends at once. */
async function startTwo() {
  const work = new Work();
  work.finish();
  const [a, b, id] = [await start(work), await start(work), freshKey()];
  return { a, b, work, id, key: `order:${id}`, source: a.app.get(Steps).source };
}

afterEach(closeAll);

describe('a message handler that returns an Observable', () => {
  it.each(['above', 'below', 'later'])('(%s) holds the lock until the last value is sent', async (pattern) => {
    const { a, b, work, id, key, source } = await startTwo();
    const { values, end } = collect(a, pattern, { id });
    await eventually(() => source.observed);
    const second = send(b, 'run', { id });
    await untilWaiting(b, key);
    source.next(1);
    source.next(2);
    await eventually(() => values.length === 2);
    expect([await a.locks.isLocked(key), work.started(id)]).toEqual([true, 0]);
    source.complete();
    expect([await end, await second]).toEqual(['completed', key]);
    expect(values).toEqual([`1 ${key}`, `2 ${key}`]);
  });

  it('sends all values under the lock in a request-scoped controller', async () => {
    const service = await start();
    const { values, end } = collect(service, 'per request', { id: '7' });
    expect([await end, values]).toEqual(['completed', ['1 order:7', '2 order:7']]);
    expect(await service.locks.isLocked('order:7')).toBe(false);
  });

  it.each(Object.keys(ERRORS))('sends what it would send without a lock when it fails with %s', async (name) => {
    const service = await start();
    const [unlocked, locked] = [
      collect(service, 'fails unlocked', { name }),
      collect(service, 'fails locked', { name }),
    ];
    expect(await locked.end).toEqual(await unlocked.end);
    expect(unlocked.values).toEqual(['first']);
    expect(locked.values).toEqual(['first']);
    expect(await service.locks.isLocked(`order:${name}`)).toBe(false);
  });
});

describe('an event handler that returns an Observable', () => {
  it('is subscribed to once, and holds the lock until it completes', async () => {
    const { a, b, work, id, key, source } = await startTwo();
    a.client.emit('event', { id });
    await eventually(() => source.observed);
    const second = send(b, 'run', { id });
    await untilWaiting(b, key);
    source.next(1);
    expect([a.acquired, work.started(id)]).toEqual([[key], 0]);
    source.complete();
    expect(await second).toBe(key);
  });
});
