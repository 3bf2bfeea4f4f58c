import 'reflect-metadata';
import { createReadStream } from 'node:fs';
import { mkdtemp, readdir, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { Controller, Get, StreamableFile, UseInterceptors } from '@nestjs/common';
import { map, type Observable, of } from 'rxjs';
import { Locked, LockConfigurationError, LockInterceptor } from '../../../lib/index.js';
import { eventually, eventuallyPasses } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { PLATFORMS, startRequests } from '../support/requests.js';

let path: string;
let missing: string;

const openFile = () => createReadStream(path, { highWaterMark: 1 });
const webStream = () => Readable.toWeb(openFile()) as ReadableStream;

/** What a method may return that reads from an open file. */
const BODIES: Record<string, () => unknown> = {
  stream: openFile,
  file: () => new StreamableFile(openFile()),
  web: webStream,
};

/** What is refused only for a request: inside something else, or read by Nest after the handler. */
const REQUEST_BODIES: Record<string, () => unknown> = {
  ...BODIES,
  response: () => new Response(webStream()),
  wrapped: () => ({ first: openFile(), second: new StreamableFile(openFile()) }),
};

class Files {
  @Locked('file:<0>')
  async open(_id: string, what: string): Promise<unknown> {
    return BODIES[what]!();
  }

  @Locked('file:<0>')
  async openMissing(_id: string): Promise<StreamableFile> {
    return new StreamableFile(createReadStream(missing));
  }
}

class Wraps {
  intercept(_context: unknown, next: { handle(): Observable<string> }): Observable<unknown> {
    return next.handle().pipe(map((what) => REQUEST_BODIES[what]!()));
  }
}

/** The body comes from the handler, or of an interceptor inside the lock. */
@Controller()
class Routes {
  @Get('handler/:what/:id')
  @UseInterceptors(LockInterceptor.for('file:<0.params.id>'))
  handler(): unknown {
    return REQUEST_BODIES[current]!();
  }

  @Get('interceptor/:what/:id')
  @UseInterceptors(LockInterceptor.for('file:<0.params.id>'), Wraps)
  interceptor(): Observable<string> {
    return of(current);
  }
}

let current = '';

/** How often this process has the file open. */
async function timesOpen(): Promise<number> {
  const all = await readdir('/proc/self/fd');
  const targets = await Promise.all(all.map((fd) => readlink(join('/proc/self/fd', fd)).catch(() => '')));
  return targets.filter((target) => target === path).length;
}

const untilClosed = () => eventuallyPasses(async () => expect(await timesOpen()).toBe(0));

beforeEach(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'refused-files-'));
  [path, missing] = [join(folder, 'file'), join(folder, 'missing')];
  await writeFile(path, 'text'.repeat(1_000));
});
afterEach(async () => {
  await closeAll();
  await rm(join(path, '..'), { recursive: true });
});

it('this test notices an open file', async () => {
  const stream = openFile();
  await eventually(async () => (await timesOpen()) === 1);
  stream.destroy();
  await untilClosed();
});

describe('a refused result of a method with @Locked', () => {
  it.each(Object.keys(BODIES))('leaves no file open (%s)', async (what) => {
    const { app } = await startApp({}, { providers: [Files] });
    const files = app.get(Files);
    for (let n = 0; n < 5; n += 1) {
      expect(await rejection(files.open(freshKey(), what))).toBeInstanceOf(LockConfigurationError);
    }
    await untilClosed();
  });

  it('only rejects the call when the file cannot be opened', async () => {
    const { app } = await startApp({}, { providers: [Files] });
    expect(await rejection(app.get(Files).openMissing(freshKey()))).toBeInstanceOf(LockConfigurationError);
    const stream = createReadStream(missing);
    await new Promise((resolve) => stream.once('error', resolve));
  });
});

describe.each(PLATFORMS)('a refused body on %s', (platform) => {
  it.each(['handler', 'interceptor'].flatMap((of) => Object.keys(REQUEST_BODIES).map((what) => [what, of])))(
    'leaves no file open (%s of the %s)',
    async (what, of) => {
      const app = await startRequests(platform, { controllers: [Routes] });
      current = what!;
      for (let n = 0; n < 5; n += 1) expect((await app.get(`${of}/${what}/${freshKey()}`)).status).toBe(500);
      expect(app.failures).toEqual(Array.from({ length: 5 }, () => expect.any(LockConfigurationError)));
      await untilClosed();
    },
  );
});
