import {
  type CanActivate,
  type ExecutionContext,
  type PipeTransform,
  Scope,
  type Type,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common';
import { Locked, LockInterceptor } from '../../../lib/index.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { idOf, type Transport, type TransportApp, TRANSPORTS } from '../support/every-transport.js';
import { expectOneAtATime, startTwo, Work } from '../support/transports.js';

/** A guard that refuses the messages whose id names its level. */
const refuses = (level: string): Type<CanActivate> =>
  class {
    canActivate(context: ExecutionContext): boolean {
      return idOf(context) !== `refused-by-${level}`;
    }
  };

/** A pipe that changes an id, so that the key shows which pipes it went through. */
const marks = (level: string): Type<PipeTransform> =>
  class {
    transform(id: string): string {
      return `${id}+${level}`;
    }
  };

function handlersOf({ declares, handles, id, context, key, exception }: Transport) {
  const ERRORS: Record<string, () => Error> = { exception, error: () => new Error('secret') };

  @declares()
  class Orders {
    constructor(private readonly work: Work) {}

    @handles('above')
    @Locked('order:<0>')
    above(@id() id: string): Promise<string> {
      return this.work.run(id);
    }

    @Locked('order:<1>')
    @handles('below')
    below(@context() _context: unknown, @id() id: string): Promise<string> {
      return this.work.run(id);
    }

    @handles('byRequest')
    @UseInterceptors(LockInterceptor.for(key))
    byRequest(@id() id: string): Promise<string> {
      return this.work.run(id);
    }

    @handles('busy')
    @Locked('order:<0>', { ifBusy: 'throw' })
    async busy(@id() _id: string): Promise<string> {
      return 'ran';
    }

    @handles('skips')
    @Locked('order:<0>', { ifBusy: 'skip' })
    async skips(@id() _id: string): Promise<string | undefined> {
      return 'ran';
    }

    @handles('skipsByRequest')
    @UseInterceptors(LockInterceptor.for(key, { ifBusy: 'skip' }))
    skipsByRequest(@id() _id: string): string {
      return 'ran';
    }

    @handles('failsUnlocked')
    async failsUnlocked(@id() name: string): Promise<string> {
      throw ERRORS[name]!();
    }

    @handles('failsAbove')
    @Locked('order:<0>')
    async failsAbove(@id() name: string): Promise<string> {
      throw ERRORS[name]!();
    }

    @Locked('order:<0>')
    @handles('failsBelow')
    async failsBelow(@id() name: string): Promise<string> {
      throw ERRORS[name]!();
    }
  }

  @declares(Scope.REQUEST)
  class PerRequest {
    static built = 0;

    constructor(private readonly work: Work) {
      PerRequest.built += 1;
    }

    @handles('perRequest')
    @Locked('order:<0>')
    perRequest(@id() id: string): Promise<string> {
      return this.work.run(id);
    }
  }

  @declares()
  @UseGuards(refuses('class'))
  @UsePipes(marks('class'))
  class Checked {
    constructor(private readonly work: Work) {}

    @handles('checkedAbove')
    @UseGuards(refuses('method'))
    @UsePipes(marks('method'))
    @Locked('order:<0>')
    checkedAbove(@id(marks('parameter')) id: string): Promise<string> {
      return this.work.run(id);
    }

    @Locked('order:<0>')
    @UsePipes(marks('method'))
    @UseGuards(refuses('method'))
    @handles('checkedBelow')
    checkedBelow(@id(marks('parameter')) id: string): Promise<string> {
      return this.work.run(id);
    }
  }
  return { types: [Orders, PerRequest, Checked], PerRequest };
}

const CHECKED = ['checkedAbove', 'checkedBelow'];
const HANDLERS = ['above', 'below', 'perRequest', 'byRequest', ...CHECKED];

/** The id that the handler receives. */
const received = (handler: string, id: string): string =>
  CHECKED.includes(handler) ? `${id}+class+method+parameter` : id;

afterEach(closeAll);

describe.each(TRANSPORTS)('a locked handler on %s', (name, transport) => {
  const { types, PerRequest } = handlersOf(transport);
  const start = (work = new Work()): Promise<TransportApp> => transport.start(types, work);

  it.each(HANDLERS)('(%s) answers under the key of what it receives', async (handler) => {
    const app = await start();
    app.work.finish();
    const key = `order:${received(handler, '7')}`;
    expect(await app.call(handler, '7')).toBe(key);
    expect(app.acquired).toEqual([key]);
  });

  it.each(HANDLERS)('(%s) runs on one of two instances at a time', async (handler) => {
    await expectOneAtATime(
      await startTwo(start),
      ({ call }, id) => call(handler, id),
      (id) => received(handler, id),
    );
  });

  it('has an instance for each message when its class is request-scoped', async () => {
    const app = await start();
    app.work.finish();
    const before = PerRequest.built;
    for (const id of ['1', '2']) await app.call('perRequest', id);
    expect(PerRequest.built - before).toBe(2);
  });

  it.each(CHECKED)('(%s) keeps its guards, and acquires nothing when they refuse', async (handler) => {
    const app = await start();
    for (const level of ['class', 'method']) {
      const refused = await app.call(handler, `refused-by-${level}`);
      expect(refused).toMatchObject({ failed: { message: 'Forbidden resource' } });
    }
    expect(app.acquired).toEqual([]);
  });

  it.each(['exception', 'error'])('(%s) fails as without a lock', async (error) => {
    const app = await start();
    const unlocked = await app.call('failsUnlocked', error);
    const internal = name === 'GraphQL' ? 'secret' : 'Internal server error';
    expect(unlocked).toMatchObject({ failed: { message: error === 'error' ? internal : 'sold out' } });
    const withoutCause = ({ failed }: any): unknown => ({ ...failed, cause: undefined });
    for (const handler of ['failsAbove', 'failsBelow']) {
      expect(withoutCause(await app.call(handler, error))).toEqual(withoutCause(unlocked));
    }
    expect(await app.locks.isLocked(`order:${error}`)).toBe(false);
  });

  it('fails with LockBusyError like with any unknown error, whose text only GraphQL shows', async () => {
    const [app, id] = [await start(), freshKey()];
    await app.locks.acquire(`order:${id}`);
    const failed = await app.call('busy', id);
    const isShown = name === 'GraphQL';
    const message: unknown = isShown ? expect.stringContaining(`The lock "order:${id}"`) : 'Internal server error';
    expect(failed).toMatchObject({ failed: { message } });
    expect(JSON.stringify(failed).includes(`order:${id}`)).toBe(isShown);
  });

  // A skipped message of a WebSocket has no answer.
  if (name === 'WebSockets') return;

  it.each(['skips', 'skipsByRequest'])('(%s) is answered with nothing when it is skipped', async (handler) => {
    const [app, id] = [await start(), freshKey()];
    const lock = await app.locks.acquire(`order:${id}`);
    expect((await app.call(handler, id)) ?? '').toBe('');
    await lock.release();
    expect(await app.call(handler, id)).toBe('ran');
  });
});
