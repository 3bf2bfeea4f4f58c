import { Injectable } from '@nestjs/common';
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
  ofType,
  Saga,
} from '@nestjs/cqrs';
import { type Observable, asyncScheduler, map, observeOn } from 'rxjs';
import { Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree, untilWaiting } from '../../support/waiting/waiters.js';
import { type Instance, startInstance, startTwo, Work } from '../support/transports.js';

class WithId {
  constructor(readonly id: string) {}
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

const HANDLERS = [Sagas, ShipHandler, PublishHandler, PublishAndWaitHandler, AnnouncedHandler];

const start = (work = new Work()): Promise<Instance> =>
  startInstance({ imports: [CqrsModule.forRoot()], providers: HANDLERS }, work);

const execute = ({ app }: Instance, command: object): Promise<unknown> => app.get(CommandBus).execute(command);

afterEach(closeAll);

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
