import {
  type CanActivate,
  Controller,
  type ExecutionContext,
  Get,
  NotFoundException,
  Param,
  Post,
  Sse,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { map, NEVER, Observable, of, Subject } from 'rxjs';
import { currentLock, getLockServiceToken, Locked, LockInterceptor, LockLostError } from '../../../lib/index.js';
import { FakeLockModule, FakeLockService } from '../../../lib/testing/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { ofOtherRxjs } from '../../support/apps/other-rxjs.js';
import { untilFree, untilWaiting } from '../../support/waiting/waiters.js';
import { open, PLATFORMS, type Request, type RequestApp, requestOf, startRequests } from '../support/requests.js';
import { routesOf } from '../support/routes.js';
import { Work } from '../support/transports.js';

afterEach(closeAll);

const KEY = 'order:<0.params.id>';
const text = (key: string, { params }: Request): string => `${key} is busy for ${params['id']}`;
const otherText = (key: string, request: Request): object => ofOtherRxjs(text(key, request));
const refuse = (): never => {
  throw new NotFoundException('come later');
};

/** Resolves when the connection of a client is closed. */
class NotesLeave implements CanActivate {
  static left = 0;

  canActivate(context: ExecutionContext): boolean {
    type Connected = { readonly socket?: NodeJS.EventEmitter };
    const { raw, socket } = requestOf(context) as Connected & { readonly raw?: Connected };
    (raw?.socket ?? socket)!.once('close', () => (NotesLeave.left += 1));
    return true;
  }
}

@Controller()
class Orders {
  constructor(private readonly work: Work) {}

  @Get('run/:id')
  @UseGuards(NotesLeave)
  @UseInterceptors(LockInterceptor.for(KEY))
  run(@Param('id') id: string): Promise<string> {
    return this.work.run(id);
  }

  @Get('skip/:id')
  @UseInterceptors(LockInterceptor.for(KEY, { ifBusy: 'skip' }))
  skip(): string {
    return 'ran';
  }

  @Post('skip/:id')
  @UseInterceptors(LockInterceptor.for(KEY, { ifBusy: 'skip' }))
  skipPost(): string {
    return 'ran';
  }
}

const Routes = routesOf({
  'value/:id': LockInterceptor.for(KEY, { ifBusy: text }),
  'promise/:id': LockInterceptor.for(KEY, { ifBusy: async (key: string, request: Request) => text(key, request) }),
  'observable/:id': LockInterceptor.for(KEY, {
    ifBusy: (key: string, request: Request) => of('first', text(key, request)),
  }),
  'other-copy/:id': LockInterceptor.for(KEY, { ifBusy: otherText }),
  'refuse/:id': LockInterceptor.for(KEY, { ifBusy: refuse }),
  'reject/:id': LockInterceptor.for(KEY, { ifBusy: async () => refuse() }),
  'absent/run-unlocked/:id': [
    LockInterceptor.for(KEY, { connection: 'away', onUnavailable: 'run-unlocked' }),
    () => {
      expect(currentLock()).toMatchObject({ held: false, fencingToken: null });
      return 'ran';
    },
  ],
  'absent/skip/:id': LockInterceptor.for(KEY, { connection: 'away', onUnavailable: 'skip' }),
});

const ORDERS = {
  controllers: [Orders, Routes],
  imports: [FakeLockModule.forRoot(new FakeLockService({ name: 'away' }).fail())],
};

describe.each(PLATFORMS)('a request for a busy key on %s', (platform) => {
  /** An app and a key that is busy. */
  async function startBusy() {
    const [app, id] = [await startRequests(platform, ORDERS), freshKey()];
    const lock = await app.locks.acquire(`order:${id}`);
    const skipped: unknown[] = [];
    app.locks.events.on('skipped', ({ key, reason, where }) => skipped.push({ key, reason, where }));
    return { app, id, lock, skipped };
  }

  it('gets an empty response with a success status when it is skipped', async () => {
    const { app, id, lock, skipped } = await startBusy();
    expect(await app.get(`skip/${id}`)).toMatchObject({ status: 200, text: '' });
    expect(await app.get(`skip/${id}`, { method: 'POST' })).toMatchObject({ status: 201, text: '' });
    const [key, reason] = [`order:${id}`, 'busy'];
    expect(skipped).toEqual(['Orders.skip', 'Orders.skipPost'].map((where) => ({ key, reason, where })));
    await lock.release();
    expect((await app.get(`skip/${id}`)).text).toBe('ran');
  });

  it.each(['value', 'promise', 'observable', 'other-copy'])(
    'is answered by the %s of its ifBusy function',
    async (how) => {
      const { app, id, lock, skipped } = await startBusy();
      expect(await app.get(`${how}/${id}`)).toMatchObject({ status: 200, text: `order:${id} is busy for ${id}` });
      expect(skipped).toHaveLength(1);
      await lock.release();
      expect((await app.get(`${how}/${id}`)).text).toBe('ran');
    },
  );

  it.each(['refuse', 'reject'])('fails with the error of its ifBusy function (%s)', async (how) => {
    const { app, id } = await startBusy();
    const { status, text: body } = await app.get(`${how}/${id}`);
    expect([status, (JSON.parse(body) as Error).message]).toEqual([404, 'come later']);
  });

  it('keeps its place when its client goes away, and then runs like any handler without a client', async () => {
    const { app, id, lock } = await startBusy();
    const before = NotesLeave.left;
    const { leave } = open(app, `run/${id}`);
    await untilWaiting(app, `order:${id}`);
    leave();
    await eventually(() => NotesLeave.left > before);
    expect((await app.locks.inspect(`order:${id}`)).waiters).toBe(1);
    await lock.release();
    await eventually(() => app.work.isRunning(id));
    app.work.finish();
    await untilFree(app, `order:${id}`);
  });
});

describe.each(PLATFORMS)('a request that loses its lock on %s', (platform) => {
  it('fails with LockLostError, while its handler may still run', async () => {
    const app = await startRequests(platform, ORDERS, { locks: { leaseMs: 1_500 } });
    const id = freshKey();
    const answer = app.get(`run/${id}`);
    await eventually(() => app.work.isRunning(id));
    await app.locks.forceRelease(`order:${id}`);
    expect((await answer).status).toBe(500);
    expect(app.work.isRunning(id)).toBe(true);
    expect(app.failures).toMatchObject([{ reason: 'revoked' }]);
    expect(app.failures).toEqual([expect.any(LockLostError)]);
    app.work.finish();
    await eventually(() => !app.work.isRunning(id));
  });
});

describe.each(PLATFORMS)('a request without a Redis on %s', (platform) => {
  const start = () => startRequests(platform, ORDERS);

  it('is skipped with an empty response, or runs unlocked, where its options allow it', async () => {
    const app = await start();
    const skipped: string[] = [];
    app.app
      .get<FakeLockService>(getLockServiceToken('away'))
      .events.on('skipped', ({ reason }) => skipped.push(reason));
    expect(await app.get(`absent/skip/${freshKey()}`)).toMatchObject({ status: 200, text: '' });
    expect(skipped).toEqual(['unavailable']);
    expect(await app.get(`absent/run-unlocked/${freshKey()}`)).toMatchObject({ status: 200, text: 'ran' });
    expect(app.failures).toEqual([]);
  });
});

interface Message {
  data: string;
}

@Controller()
class Streams {
  readonly source = new Subject<number>();
  calls = 0;

  @Sse('events/:id')
  @UseInterceptors(LockInterceptor.for(KEY, { waitMs: Infinity }))
  events(): Observable<Message> {
    this.calls += 1;
    const { key } = currentLock();
    return this.source.pipe(map((value) => ({ data: `${value} ${key}` })));
  }

  @Sse('promised-events/:id')
  @UseInterceptors(LockInterceptor.for(KEY))
  async promisedEvents(): Promise<Observable<Message>> {
    const { key } = currentLock();
    return this.source.pipe(map((value) => ({ data: `${value} ${key}` })));
  }

  @Sse('method-events/:id')
  @Locked('order:<0>')
  methodEvents(@Param('id') _id: string): Observable<Message> {
    const { key } = currentLock();
    return this.source.pipe(map((value) => ({ data: `${value} ${key}` })));
  }

  @Sse('skip/:id')
  @UseInterceptors(LockInterceptor.for(KEY, { ifBusy: 'skip' }))
  skip(): Observable<Message> {
    return NEVER;
  }

  @Sse('answer/:id')
  @UseInterceptors(LockInterceptor.for(KEY, { ifBusy: () => of({ data: 'busy' }, { data: 'still' }) }))
  answer(): Observable<Message> {
    return NEVER;
  }
}

const SSE = ['events', 'promised-events', 'method-events'];
const sourceOf = ({ app }: RequestApp): Subject<number> => app.get(Streams).source;

/** Reads until the text has come, or the answer has ended. */
async function readUntil(answer: globalThis.Response, expected: string): Promise<string> {
  const reader = answer.body!.getReader();
  let text = '';
  while (!text.includes(expected)) {
    const { value, done } = await reader.read();
    if (done) break;
    text += Buffer.from(value).toString();
  }
  return text;
}

describe.each(PLATFORMS)('server-sent events under a lock on %s', (platform) => {
  const start = () => startRequests(platform, { controllers: [Streams] }, { locks: { leaseMs: 1_500 } });

  it.each(SSE)('(%s) hold the lock until the client goes away', async (path) => {
    const [app, id] = [await start(), freshKey()];
    const { answer, leave } = open(app, `${path}/${id}`);
    await eventually(() => sourceOf(app).observed);
    sourceOf(app).next(1);
    expect(await readUntil(await answer, `data: 1 order:${id}`)).toContain(`data: 1 order:${id}`);
    expect(await app.locks.isLocked(`order:${id}`)).toBe(true);
    leave();
    await untilFree(app, `order:${id}`);
    expect(sourceOf(app).observed).toBe(false);
  });

  it.each(SSE)('(%s) hold the lock until their source ends', async (path) => {
    const [app, id] = [await start(), freshKey()];
    const { answer } = open(app, `${path}/${id}`);
    await eventually(() => sourceOf(app).observed);
    sourceOf(app).next(7);
    sourceOf(app).complete();
    expect(await (await answer).text()).toContain(`data: 7 order:${id}`);
    await untilFree(app, `order:${id}`);
  });

  it('leave the queue when the client goes away while they wait', async () => {
    const [app, id] = [await start(), freshKey()];
    const lock = await app.locks.acquire(`order:${id}`);
    const { leave } = open(app, `events/${id}`);
    await untilWaiting(app, `order:${id}`);
    leave();
    await untilWaiting(app, `order:${id}`, 0);
    await lock.release();
    expect(app.app.get(Streams).calls).toBe(0);
    expect(await app.locks.isLocked(`order:${id}`)).toBe(false);
  });

  it('end with an error when the lock is lost', async () => {
    const [app, id] = [await start(), freshKey()];
    const { answer } = open(app, `events/${id}`);
    await eventually(() => sourceOf(app).observed);
    sourceOf(app).next(1);
    await app.locks.forceRelease(`order:${id}`);
    const text = await (await answer).text();
    expect(text).toContain('event: error');
    await eventually(() => !sourceOf(app).observed);
  });

  it('end without events, or with those of the ifBusy function, when the key is busy', async () => {
    const [app, id] = [await start(), freshKey()];
    await app.locks.acquire(`order:${id}`);
    const { status, text } = await app.get(`skip/${id}`);
    expect([status, text.includes('data: ')]).toEqual([200, false]);
    const answered = await app.get(`answer/${id}`);
    expect(answered.text).toMatch(/data: busy\n[^]*data: still\n/);
  });
});
