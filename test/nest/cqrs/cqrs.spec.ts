import { Inject, Injectable, Scope } from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import {
  CommandBus,
  CommandHandler,
  CqrsModule,
  EventBus,
  EventsHandler,
  type ICommand,
  type ICommandHandler,
  type IEvent,
  type IEventHandler,
  type IQueryHandler,
  QueryBus,
  ofType,
  QueryHandler,
  Saga,
  UnhandledExceptionBus,
} from '@nestjs/cqrs';
import { type Observable, asyncScheduler, map, observeOn } from 'rxjs';
import { Locked, LockBusyError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree, untilWaiting } from '../../support/waiting/waiters.js';
import { type Instance, expectOneAtATime, startInstance, startTwo, Work } from '../support/transports.js';

class WithId {
  constructor(readonly id: string) {}
}

class Charge extends WithId {}
class ChargePerRequest extends WithId {}
class GetTotal extends WithId {}
class Paid extends WithId {}
class PaidPerRequest extends WithId {}

@CommandHandler(Charge)
class ChargeHandler implements ICommandHandler<Charge> {
  constructor(private readonly work: Work) {}

  @Locked('order:<0.id>')
  execute(command: Charge): Promise<string> {
    return this.work.run(command.id);
  }
}

@CommandHandler(ChargePerRequest, { scope: Scope.REQUEST })
class ChargePerRequestHandler implements ICommandHandler<ChargePerRequest> {
  constructor(
    private readonly work: Work,
    @Inject(REQUEST) readonly request: unknown,
  ) {}

  @Locked('order:<0.id>')
  execute(command: ChargePerRequest): Promise<string> {
    return this.work.run(command.id);
  }
}

@QueryHandler(GetTotal)
class GetTotalHandler implements IQueryHandler<GetTotal> {
  constructor(private readonly work: Work) {}

  @Locked('order:<0.id>')
  execute(query: GetTotal): Promise<string> {
    return this.work.run(query.id);
  }
}

@EventsHandler(Paid)
class PaidHandler implements IEventHandler<Paid> {
  constructor(private readonly work: Work) {}

  @Locked('order:<0.id>')
  async handle(event: Paid): Promise<void> {
    await this.work.run(event.id);
  }
}

@EventsHandler(PaidPerRequest, { scope: Scope.REQUEST })
class PaidPerRequestHandler implements IEventHandler<PaidPerRequest> {
  constructor(private readonly work: Work) {}

  @Locked('order:<0.id>')
  async handle(event: PaidPerRequest): Promise<void> {
    await this.work.run(event.id);
  }
}

class Failed extends WithId {}
class Busy extends WithId {}

const ERROR = new Error('of the handler');

@EventsHandler(Failed)
class FailedHandler implements IEventHandler<Failed> {
  @Locked('order:<0.id>')
  async handle(_event: Failed): Promise<void> {
    throw ERROR;
  }
}

@EventsHandler(Busy)
class BusyHandler implements IEventHandler<Busy> {
  @Locked('order:<0.id>', { ifBusy: 'throw' })
  async handle(_event: Busy): Promise<void> {}
}

class Ship extends WithId {}
class Ordered extends WithId {}
class OrderedLongAgo extends WithId {}
class Announced extends WithId {}

class Publish {
  constructor(readonly event: WithId) {}
}

class PublishAndWait extends Publish {}

/** Sagas: one answers in the turn of its event, the other in a later one. */
@Injectable()
class Sagas {
  @Saga()
  ship = (events$: Observable<IEvent>): Observable<ICommand> =>
    events$.pipe(
      ofType(Ordered),
      map(({ id }) => new Ship(id)),
    );

  @Saga()
  shipLater = (events$: Observable<IEvent>): Observable<ICommand> =>
    events$.pipe(
      ofType(OrderedLongAgo),
      observeOn(asyncScheduler),
      map(({ id }) => new Ship(id)),
    );
}

@CommandHandler(Ship)
class ShipHandler implements ICommandHandler<Ship> {
  constructor(private readonly work: Work) {}

  @Locked('order:<0.id>')
  async execute({ id }: Ship): Promise<void> {
    await this.work.run(id);
  }
}

/** Publishes an event under the lock whose handlers lock the same key. */
@CommandHandler(Publish)
class PublishHandler implements ICommandHandler<Publish> {
  constructor(private readonly events: EventBus) {}

  @Locked('order:<0.event.id>')
  async execute({ event }: Publish): Promise<void> {
    this.events.publish(event);
  }
}

/** Continues until the handler of its event runs. */
@CommandHandler(PublishAndWait)
class PublishAndWaitHandler implements ICommandHandler<PublishAndWait> {
  constructor(
    private readonly events: EventBus,
    private readonly work: Work,
  ) {}

  @Locked('order:<0.event.id>')
  async execute({ event }: PublishAndWait): Promise<void> {
    this.events.publish(event);
    await eventually(() => this.work.isRunning(event.id));
  }
}

@EventsHandler(Announced)
class AnnouncedHandler implements IEventHandler<Announced> {
  constructor(private readonly work: Work) {}

  @Locked('order:<0.id>')
  async handle({ id }: Announced): Promise<void> {
    await this.work.run(id);
  }
}

const HANDLERS = [ChargeHandler, ChargePerRequestHandler, GetTotalHandler, PaidHandler, PaidPerRequestHandler];
const FAILURES = [FailedHandler, BusyHandler];
const SAGAS = [Sagas, ShipHandler, PublishHandler, PublishAndWaitHandler, AnnouncedHandler];

const start = (work = new Work()): Promise<Instance> =>
  startInstance({ imports: [CqrsModule.forRoot()], providers: [...HANDLERS, ...FAILURES, ...SAGAS] }, work);

const execute = ({ app }: Instance, command: object): Promise<unknown> => app.get(CommandBus).execute(command);
const query = ({ app }: Instance, question: object): Promise<unknown> => app.get(QueryBus).execute(question);
const publish = async ({ app }: Instance, event: object): Promise<void> => void app.get(EventBus).publish(event);

const CALLS: Record<string, (instance: Instance, id: string) => Promise<unknown>> = {
  'a command handler': (instance, id) => execute(instance, new Charge(id)),
  'a request-scoped command handler': (instance, id) => execute(instance, new ChargePerRequest(id)),
  'a query handler': (instance, id) => query(instance, new GetTotal(id)),
  'an event handler': (instance, id) => publish(instance, new Paid(id)),
  'a request-scoped event handler': (instance, id) => publish(instance, new PaidPerRequest(id)),
};

afterEach(closeAll);

describe.each(Object.keys(CALLS))('%s', (name) => {
  const call = CALLS[name]!;

  it('runs under the key of its message', async () => {
    const instance = await start();
    instance.work.finish();
    const answer = await call(instance, '7');
    await eventually(() => instance.work.started('7') === 1);
    expect(instance.acquired).toEqual(['order:7']);
    expect(answer).toBe(name.includes('event') ? undefined : 'order:7');
  });

  it('runs on one of two instances at a time', async () => {
    await expectOneAtATime(await startTwo(start), call);
  });
});

describe('an error', () => {
  it.each(['of an event handler', 'LockBusyError'])('%s reaches the bus for unhandled exceptions', async (which) => {
    const [instance, id] = [await start(), freshKey()];
    const unhandled: { cause: unknown; exception: unknown }[] = [];
    const bus = instance.app.get<UnhandledExceptionBus<object>>(UnhandledExceptionBus);
    bus.subscribe((info) => void unhandled.push(info));
    if (which === 'LockBusyError') await instance.locks.acquire(`order:${id}`);
    const event = which === 'LockBusyError' ? new Busy(id) : new Failed(id);
    await publish(instance, event);
    const { cause, exception } = await eventually(() => unhandled[0]);
    expect(cause).toBe(event);
    if (which === 'LockBusyError') expect(exception).toBeInstanceOf(LockBusyError);
    else expect(exception).toBe(ERROR);
  });
});

/** Rows of `it.each` with distinct test names. */
const named = (...events: (typeof WithId)[]) => events.map((event) => [event.name, event] as const);

describe('an event that is published under a lock', () => {
  it.each(named(Announced, Ordered, OrderedLongAgo))(
    'leads to work on the same key, without another holder in between (%s)',
    async (_name, Event) => {
      const [a, b] = await startTwo(start);
      const [{ work }, id] = [a, freshKey()];
      await execute(a, new Publish(new Event(id)));
      await eventually(() => work.isRunning(id));
      const other = execute(b, new Ship(id));
      await untilWaiting(b, `order:${id}`);
      await work.untilStarted(id);
      expect(work.started(id)).toBe(1);
      work.finish();
      await other;
      expect([work.started(id), work.overlapped(id)]).toEqual([2, false]);
    },
  );

  it('runs its handler at once under the hold of the command, like any nested call', async () => {
    const [instance, id] = [await start(), freshKey()];
    await execute(instance, new PublishAndWait(new Announced(id)));
    expect(instance.acquired).toEqual([`order:${id}`]);
    expect(await instance.locks.isLocked(`order:${id}`)).toBe(true);
    instance.work.finish();
    await untilFree(instance, `order:${id}`);
  });
});
