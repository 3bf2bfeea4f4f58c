import { Scope, type Type, UseInterceptors } from '@nestjs/common';
import { Observable, Subject, concat, map, of, throwError } from 'rxjs';
import { currentLock, Locked, LockInterceptor } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { microservices, type Transport, webSockets } from '../support/every-transport.js';
import { type Instance, Work } from '../support/transports.js';
import { collect, startService } from '../support/transports-tcp.js';
import { connect, startGateways } from '../support/transports-ws.js';

interface StreamApp extends Instance {
  /** Calls a handler, and notes what the client gets, error included. */
  readonly open: (
    handler: string,
    id: string,
  ) => Promise<{ readonly told: readonly unknown[]; readonly leave: () => void }>;
}

const startMessages = async (types: readonly Type[], work: Work): Promise<StreamApp> => {
  const service = await startService(types, work);
  const open: StreamApp['open'] = async (handler, id) => {
    const { values, end } = collect(service, handler, { id });
    void end.then((ended) => ended === 'completed' || values.push(ended));
    return { told: values, leave: () => service.client.close() };
  };
  return { ...service, open };
};

const startSockets = async (types: readonly Type[], work: Work): Promise<StreamApp> => {
  const gateway = await startGateways(types, work);
  const open: StreamApp['open'] = async (handler, id) => {
    const { received, send, close } = await connect(gateway);
    send(handler, { id });
    return { told: received, leave: close };
  };
  return { ...gateway, open };
};

function stepsOf({ declares, handles, id, key, exception }: Transport) {
  const failing = (): Observable<string> => concat(of('first'), throwError(exception));

  @declares()
  class Steps {
    readonly source = new Subject<number>();

    constructor(private readonly work: Work) {}

    @handles('run')
    @Locked('order:<0>')
    run(@id() id: string): Promise<string> {
      return this.work.run(id);
    }

    @handles('above')
    @Locked('order:<0>')
    above(@id() _id: string): Observable<string> {
      return this.#underLock();
    }

    @Locked('order:<0>')
    @handles('below')
    below(@id() _id: string): Observable<string> {
      return this.#underLock();
    }

    @handles('later')
    @Locked('order:<0>')
    async later(@id() _id: string): Promise<Observable<string>> {
      return this.#underLock();
    }

    @handles('byRequest')
    @UseInterceptors(LockInterceptor.for(key))
    byRequest(@id() _id: string): Observable<string> {
      return this.#underLock();
    }

    @handles('failsUnlocked')
    failsUnlocked(@id() _id: string): Observable<string> {
      return failing();
    }

    @handles('failsLocked')
    @Locked('order:<0>')
    failsLocked(@id() _id: string): Observable<string> {
      return failing();
    }

    @handles('failsByRequest')
    @UseInterceptors(LockInterceptor.for(key))
    failsByRequest(@id() _id: string): Observable<string> {
      return failing();
    }

    #underLock(): Observable<string> {
      const { key } = currentLock();
      return this.source.pipe(map((value) => `${value} ${key}`));
    }
  }

  @declares(Scope.REQUEST)
  class PerRequest {
    @handles('perRequest')
    @Locked('order:<0>')
    steps(@id() _id: string): Observable<string> {
      return of(1, 2).pipe(map((value) => `${value} ${currentLock().key}`));
    }
  }
  return { Steps, PerRequest };
}

afterEach(closeAll);

describe.each([
  ['microservices', microservices, startMessages],
  ['WebSockets', webSockets, startSockets],
] as const)('a handler that returns an Observable on %s', (_name, transport, startWith) => {
  const { Steps, PerRequest } = stepsOf(transport);
  const start = (work = new Work()): Promise<StreamApp> => startWith([Steps, PerRequest], work);

  /** Starts two instances: the source of `a` continues until the test ends it, the work of `b` ends at once. */
  async function startTwo() {
    const work = new Work();
    work.finish();
    const [a, b, id] = [await start(work), await start(work), freshKey()];
    return { a, b, work, id, key: `order:${id}`, source: a.app.get(Steps).source };
  }

  const handlers = ['above', 'below', 'later', 'byRequest'];

  it.each(handlers)('(%s) holds the lock until the last value is sent', async (handler) => {
    const { a, b, work, id, key, source } = await startTwo();
    const { told } = await a.open(handler, id);
    await eventually(() => source.observed);
    const second = await b.open('run', id);
    await untilWaiting(b, key);
    source.next(1);
    source.next(2);
    await eventually(() => told.length === 2);
    expect([await a.locks.isLocked(key), work.started(id)]).toEqual([true, 0]);
    source.complete();
    await eventually(() => second.told.length > 0);
    expect([told, second.told]).toEqual([[`1 ${key}`, `2 ${key}`], [key]]);
  });

  it('sends all values under the lock when its class is request-scoped', async () => {
    const app = await start();
    const { told } = await app.open('perRequest', '7');
    await eventually(() => told.length === 2);
    expect(told).toEqual(['1 order:7', '2 order:7']);
    await eventually(async () => !(await app.locks.isLocked('order:7')));
  });

  it.each(['failsLocked', 'failsByRequest'])('(%s) sends what it would send without a lock', async (handler) => {
    const [app, id] = [await start(), freshKey()];
    const [unlocked, locked] = [await app.open('failsUnlocked', id), await app.open(handler, id)];
    await eventually(() => unlocked.told.length === 2 && locked.told.length === 2);
    // The cause names the handler.
    expect(JSON.stringify(locked.told).replaceAll(handler, 'failsUnlocked')).toBe(JSON.stringify(unlocked.told));
    expect([unlocked.told[0], JSON.stringify(unlocked.told[1])]).toEqual([
      'first',
      expect.stringContaining('sold out'),
    ]);
    await eventually(async () => !(await app.locks.isLocked(`order:${id}`)));
  });

  if (transport !== webSockets) return;

  it.each(handlers)('(%s) releases the lock when its client disconnects', async (handler) => {
    const { a, b, id, key, source } = await startTwo();
    const { leave } = await a.open(handler, id);
    await eventually(() => source.observed);
    leave();
    const { told } = await b.open('run', id);
    await eventually(() => told.length > 0);
    expect([told, source.observed]).toEqual([[key], false]);
  });

  it('does not run when its client disconnected during the wait', async () => {
    const { a, id, key, source } = await startTwo();
    const lock = await a.locks.acquire(key);
    const { leave } = await a.open('above', id);
    await untilWaiting(a, key);
    leave();
    await untilWaiting(a, key, 0);
    await lock.release();
    expect([source.observed, a.acquired]).toEqual([false, [key]]);
  });
});
