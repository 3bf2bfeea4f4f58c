import { Readable } from 'node:stream';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Get,
  type NestInterceptor,
  Param,
  StreamableFile,
  UseInterceptors,
} from '@nestjs/common';
import { map } from 'rxjs';
import { LockConfigurationError, LockInterceptor, RedisLockService } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree } from '../../support/waiting/waiters.js';
import { PLATFORMS, startRequests } from '../support/requests.js';

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

@Controller()
class Orders {
  constructor(private readonly locks: RedisLockService) {}

  @Get('file/:id')
  @UseInterceptors(ById)
  file(@Param('id') id: string): StreamableFile {
    return new StreamableFile(this.#stream(id));
  }

  @Get('promised-file/:id')
  @UseInterceptors(ById)
  async promisedFile(@Param('id') id: string): Promise<StreamableFile> {
    return new StreamableFile(this.#stream(id));
  }

  @Get('stream/:id')
  @UseInterceptors(ById)
  stream(@Param('id') id: string): Readable {
    return this.#stream(id);
  }

  @Get('web-stream/:id')
  @UseInterceptors(ById)
  webStream(@Param('id') id: string): ReadableStream {
    return this.#webStream(id);
  }

  @Get('async-iterable/:id')
  @UseInterceptors(ById)
  asyncIterable(@Param('id') id: string): AsyncIterable<Buffer> {
    return this.#body(id);
  }

  @Get('response/:id')
  @UseInterceptors(ById)
  response(@Param('id') id: string): Response {
    return new Response(this.#webStream(id));
  }

  @Get('wrapped-stream/:id')
  @UseInterceptors(ById, Wraps)
  wrappedStream(@Param('id') id: string): Readable {
    return this.#stream(id);
  }

  @Get('wrapped-iterable/:id')
  @UseInterceptors(ById, Wraps)
  wrappedIterable(@Param('id') id: string): AsyncIterable<Buffer> {
    return this.#body(id);
  }

  #stream(id: string): Readable {
    const one = Readable.from(this.#body(id));
    made.push(one);
    return one;
  }

  /** One that reads nothing ahead. */
  #webStream(id: string): ReadableStream {
    const one = { destroyed: false };
    made.push(one);
    const pull = async (controller: ReadableStreamDefaultController): Promise<void> => {
      for await (const chunk of this.#body(id)) controller.enqueue(chunk);
      controller.close();
    };
    return new ReadableStream({ pull, cancel: () => void (one.destroyed = true) }, { highWaterMark: 0 });
  }

  async *#body(id: string): AsyncGenerator<Buffer> {
    held.push(await this.locks.isLocked(`order:${id}`));
    yield Buffer.from('text');
  }
}

beforeEach(() => {
  made.splice(0);
  held.splice(0);
});
afterEach(closeAll);

describe.each(PLATFORMS)('a result that Nest reads after the handler on %s', (platform) => {
  const start = () => startRequests(platform, { controllers: [Orders] });
  const STREAMS = ['file', 'promised-file', 'stream', 'web-stream'];

  it.each(STREAMS)('is refused, with what to return instead: %s', async (name) => {
    const [app, id] = [await start(), freshKey()];
    expect((await app.get(`${name}/${id}`)).status).toBe(500);
    expect(app.failures).toEqual([expect.any(LockConfigurationError)]);
    expect(app.failures[0]!.message).toMatch(
      /^Orders\.\w+ is locked by LockInterceptor\.for\(\) and returned a .*Return an Obs/,
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
