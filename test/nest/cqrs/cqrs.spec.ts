import { Inject, Scope } from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import {
  CommandBus,
  CommandHandler,
  CqrsModule,
  EventBus,
  EventsHandler,
  type ICommandHandler,
  type IEventHandler,
  type IQueryHandler,
  QueryBus,
  QueryHandler,
  UnhandledExceptionBus,
} from '@nestjs/cqrs';
import { Locked, LockBusyError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
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
  static built = 0;

  constructor(
    private readonly work: Work,
    @Inject(REQUEST) readonly request: unknown,
  ) {
    ChargePerRequestHandler.built += 1;
  }

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

class FailLocked extends WithId {}
class FailUnlocked extends WithId {}
class AskAndFail extends WithId {}
class Failed extends WithId {}
class Busy extends WithId {}

const ERROR = new Error('of the handler');

@CommandHandler(FailLocked)
class FailLockedHandler implements ICommandHandler<FailLocked> {
  @Locked('order:<0.id>')
  async execute(_command: FailLocked): Promise<void> {
    throw ERROR;
  }
}

@CommandHandler(FailUnlocked)
class FailUnlockedHandler implements ICommandHandler<FailUnlocked> {
  async execute(_command: FailUnlocked): Promise<void> {
    throw ERROR;
  }
}

@QueryHandler(AskAndFail)
class AskAndFailHandler implements IQueryHandler<AskAndFail> {
  @Locked('order:<0.id>')
  async execute(_query: AskAndFail): Promise<void> {
    throw ERROR;
  }
}

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

const HANDLERS = [ChargeHandler, ChargePerRequestHandler, GetTotalHandler, PaidHandler, PaidPerRequestHandler];
const FAILURES = [FailLockedHandler, FailUnlockedHandler, AskAndFailHandler, FailedHandler, BusyHandler];

const start = (work = new Work()): Promise<Instance> =>
  startInstance({ imports: [CqrsModule.forRoot()], providers: [...HANDLERS, ...FAILURES] }, work);

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

it('a request-scoped command handler has an instance for each command', async () => {
  const instance = await start();
  instance.work.finish();
  const before = ChargePerRequestHandler.built;
  for (const id of ['1', '2']) await execute(instance, new ChargePerRequest(id));
  expect(ChargePerRequestHandler.built - before).toBe(2);
});

describe('an error', () => {
  it('of a command or a query reaches the caller unchanged, as without a lock', async () => {
    const instance = await start();
    await expect(execute(instance, new FailUnlocked('7'))).rejects.toBe(ERROR);
    await expect(execute(instance, new FailLocked('7'))).rejects.toBe(ERROR);
    await expect(query(instance, new AskAndFail('7'))).rejects.toBe(ERROR);
    expect(await instance.locks.isLocked('order:7')).toBe(false);
  });

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
