import { Readable } from 'node:stream';
import { type CallHandler, type ExecutionContext, type NestInterceptor, StreamableFile } from '@nestjs/common';
import { map } from 'rxjs';
import { LockConfigurationError, LockInterceptor, type RedisLockService } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree } from '../../support/waiting/waiters.js';
import { PLATFORMS, startRequests } from '../support/requests.js';
import { routesOf } from '../support/routes.js';

/** The streams that handlers made, and whether they were let go. */
const made: { readonly destroyed: boolean }[] = [];
/** Whether the lock was held when a result of a handler was read. */
const held: boolean[] = [];

/** What Nest sends piece by piece, of which each is a result in a plain object, too. */
class Wraps implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}

const ById = LockInterceptor.for('order:<0.params.id>');

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

/** One that reads nothing ahead. */
function webStreamOf(id: string): ReadableStream {
  const one = { destroyed: false };
  made.push(one);
  const pull = async (controller: ReadableStreamDefaultController): Promise<void> => {
    for await (const chunk of body(id)) controller.enqueue(chunk);
    controller.close();
  };
  return new ReadableStream({ pull, cancel: () => void (one.destroyed = true) }, { highWaterMark: 0 });
}

const Routes = routesOf({
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
afterEach(closeAll);

describe.each(PLATFORMS)('a result that Nest reads after the handler on %s', (platform) => {
  const start = async () => {
    const app = await startRequests(platform, { controllers: [Routes] });
    ({ locks } = app);
    return app;
  };
  const STREAMS = ['file', 'promised-file', 'stream', 'web-stream'];

  it.each(STREAMS)('is refused, with what to return instead: %s', async (name) => {
    const [app, id] = [await start(), freshKey()];
    expect((await app.get(`${name}/${id}`)).status).toBe(500);
    expect(app.failures).toEqual([expect.any(LockConfigurationError)]);
    expect(app.failures[0]!.message).toMatch(
      /^Routes\.[\w-]+ is locked by LockInterceptor\.for\(\) and returned a .*Return an Obs/,
    );
    expect(await app.locks.isLocked(`order:${id}`)).toBe(false);
    await eventually(() => made.every((one) => one.destroyed), { message: 'The stream was left open' });
  });

  const OTHERS = ['async-iterable', 'response', 'wrapped-stream', 'wrapped-iterable'];

  it.each(OTHERS)('is refused: %s', async (name) => {
    const [app, id] = [await start(), freshKey()];
    expect((await app.get(`${name}/${id}`)).status).toBe(500);
    expect(app.failures).toEqual([expect.any(LockConfigurationError)]);
    await untilFree(app, `order:${id}`);
  });

  it.each([...STREAMS, ...OTHERS])('is never read without the lock: %s', async (name) => {
    const [app, id] = [await start(), freshKey()];
    await app.get(`${name}/${id}`);
    expect(held).not.toContain(false);
    await untilFree(app, `order:${id}`);
  });
});
