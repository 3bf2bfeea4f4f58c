import { Readable } from 'node:stream';
import {
  type CallHandler,
  ConflictException,
  Controller,
  type ExecutionContext,
  Get,
  type NestInterceptor,
  Param,
  Res,
  StreamableFile,
  UseInterceptors,
} from '@nestjs/common';
import { map, of, throwError } from 'rxjs';
import {
  currentLock,
  LockConfigurationError,
  Locked,
  LockInterceptor,
  type RedisLockService,
} from '../../../lib/index.js';
import { eventually, eventuallyPasses } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree } from '../../support/waiting/waiters.js';
import { PLATFORMS, type Response, startRequests } from '../support/requests.js';
import { routesOf } from '../support/routes.js';
import { Work } from '../support/transports.js';

afterEach(closeAll);

const ById = LockInterceptor.for('order:<0.params.id>');
const key = (): string => currentLock().key;
const fail = (): never => {
  throw new ConflictException({ reason: 'sold out' });
};

/** Like the result of a query builder: each call of its `then` begins a query. */
const query = {
  begun: 0,
  // oxlint-disable-next-line unicorn/no-thenable
  then(resolve: (rows: string) => void): void {
    this.begun += 1;
    resolve(key());
  },
};

const Routes = routesOf({
  'value/:id': [ById, key],
  'promise/:id': [ById, async () => key()],
  'observable/:id': [ById, () => of('first', key())],
  'query/:id': [ById, () => query],
  'promised-observable/:id': [ById, async () => of('first', key())],
  'throws/:id': [ById, fail],
  'rejects/:id': [ById, async () => fail()],
  'errors/:id': [ById, () => throwError(() => new ConflictException({ reason: 'sold out' }))],
});

/** What both platforms have of their responses. */
type Sent = Response & NodeJS.WritableStream;

@Controller()
@UseInterceptors(ById)
class Orders {
  constructor(private readonly work: Work) {}

  @Get('manual/:id')
  async manual(@Param('id') id: string, @Res() response: Response): Promise<void> {
    response.status(203).send(await this.work.run(id));
  }

  @Get('by-request/:id')
  byRequest(@Res() response: Sent): unknown {
    return response.send('sent');
  }
}

@Controller()
class LockedMethods {
  @Get('by-method/:id')
  @Locked('order:<0>')
  async byMethod(@Param('id') _id: string, @Res() response: Sent): Promise<unknown> {
    return response.send('sent');
  }

  @Get('piped/:id')
  @Locked('order:<0>')
  async piped(@Param('id') _id: string, @Res() response: Sent): Promise<unknown> {
    return Readable.from(['text']).pipe(response);
  }
}

const CONTROLLERS = [Routes, Orders, LockedMethods];

describe.each(PLATFORMS)('a locked handler on %s', (platform) => {
  const start = () => startRequests(platform, { controllers: CONTROLLERS });

  it.each(['value', 'promise', 'observable', 'promised-observable'])('answers with its %s', async (name) => {
    const [app, id] = [await start(), freshKey()];
    expect(await app.get(`${name}/${id}`)).toMatchObject({ status: 200, text: `order:${id}` });
    expect(await app.locks.isLocked(`order:${id}`)).toBe(false);
    expect(app.acquired).toEqual([`order:${id}`]);
  });

  it('begins a query that its handler returns once', async () => {
    const [app, id, before] = [await start(), freshKey(), query.begun];
    expect(await app.get(`query/${id}`)).toMatchObject({ status: 200, text: `order:${id}` });
    expect(query.begun - before).toBe(1);
  });

  it.each(['throws', 'rejects', 'errors'])('passes its error unchanged, and releases, when it %s', async (name) => {
    const [app, id] = [await start(), freshKey()];
    const { status, text } = await app.get(`${name}/${id}`);
    expect([status, JSON.parse(text)]).toEqual([409, { reason: 'sold out' }]);
    expect(app.failures).toEqual([expect.any(ConflictException)]);
    expect(await app.locks.isLocked(`order:${id}`)).toBe(false);
  });

  it('may send the response itself, and holds the lock while it runs', async () => {
    const [app, id] = [await start(), freshKey()];
    const answer = app.get(`manual/${id}`);
    await eventually(() => app.work.isRunning(id));
    expect(await app.locks.isLocked(`order:${id}`)).toBe(true);
    app.work.finish();
    expect(await answer).toMatchObject({ status: 203, text: `order:${id}` });
    await untilFree(app, `order:${id}`);
  });

  it.each(['by-request', 'by-method'])('may return the response when it is sent: %s', async (name) => {
    const [app, id] = [await start(), freshKey()];
    expect(await app.get(`${name}/${id}`)).toMatchObject({ status: 200, text: 'sent' });
    expect(app.failures).toEqual([]);
    await untilFree(app, `order:${id}`);
  });
});

it('a response that still receives a pipe is refused as a result', async () => {
  const [app, id] = [await startRequests('express', { controllers: CONTROLLERS }), freshKey()];
  await app.get(`piped/${id}`).catch(() => undefined);
  // The client may have the text before the call has failed.
  await eventuallyPasses(() => expect(app.failures).toEqual([expect.any(LockConfigurationError)]));
  await untilFree(app, `order:${id}`);
});

/** The streams that handlers made, and whether they were released. */
const made: { readonly destroyed: boolean }[] = [];
/** Whether the lock was held when a result of a handler was read. */
const held: boolean[] = [];

/** What Nest sends piece by piece; in a plain object, each is also a result. */
class Wraps implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}

let locks: RedisLockService;

async function* body(id: string): AsyncGenerator<Buffer> {
  held.push(await locks.isLocked(`order:${id}`));
  yield Buffer.from('text');
}

function streamOf(id: string): Readable {
  const one = Readable.from(body(id));
  made.push(one);
  return one;
}

/** A stream without read-ahead. */
function webStreamOf(id: string): ReadableStream {
  const one = { destroyed: false };
  made.push(one);
  const pull = async (controller: ReadableStreamDefaultController): Promise<void> => {
    for await (const chunk of body(id)) controller.enqueue(chunk);
    controller.close();
  };
  return new ReadableStream({ pull, cancel: () => void (one.destroyed = true) }, { highWaterMark: 0 });
}

const BodyRoutes = routesOf({
  'file/:id': [ById, (id) => new StreamableFile(streamOf(id))],
  'promised-file/:id': [ById, async (id) => new StreamableFile(streamOf(id))],
  'stream/:id': [ById, streamOf],
  'web-stream/:id': [ById, webStreamOf],
  'async-iterable/:id': [ById, body],
  'response/:id': [ById, (id) => new Response(webStreamOf(id))],
  'wrapped-stream/:id': [[ById, Wraps], streamOf],
  'wrapped-iterable/:id': [[ById, Wraps], body],
});

beforeEach(() => {
  made.splice(0);
  held.splice(0);
});

describe.each(PLATFORMS)('a result that Nest reads after the handler on %s', (platform) => {
  const start = async () => {
    const app = await startRequests(platform, { controllers: [BodyRoutes] });
    ({ locks } = app);
    return app;
  };
  const STREAMS = ['file', 'promised-file', 'stream', 'web-stream'];
  const OTHERS = ['async-iterable', 'response', 'wrapped-stream', 'wrapped-iterable'];

  it.each([...STREAMS, ...OTHERS])('is refused, and is never read without the lock: %s', async (name) => {
    const [app, id] = [await start(), freshKey()];
    expect((await app.get(`${name}/${id}`)).status).toBe(500);
    expect(app.failures).toEqual([expect.any(LockConfigurationError)]);
    if (STREAMS.includes(name)) {
      expect(app.failures[0]!.message).toMatch(
        /^Routes\.[\w-]+ is locked by LockInterceptor\.for\(\) and returned a .*Return an Obs/,
      );
      await eventually(() => made.every((one) => one.destroyed), { message: 'The stream was left open' });
    }
    await untilFree(app, `order:${id}`);
    expect(held).not.toContain(false);
  });
});
