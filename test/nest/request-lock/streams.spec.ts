import { Controller, Get, Param, Sse, UseInterceptors } from '@nestjs/common';
import { NEVER, Observable, Subject, map, of } from 'rxjs';
import { currentLock, LockBusyError, Locked, LockInterceptor } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree, untilWaiting } from '../../support/waiting/waiters.js';
import { open, PLATFORMS, type RequestApp, startRequests } from '../support/requests.js';

const KEY = 'order:<0.params.id>';

interface Message {
  data: string;
}

@Controller()
class Orders {
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

  @Sse('busy/:id')
  @UseInterceptors(LockInterceptor.for(KEY, { ifBusy: 'throw' }))
  busy(): Observable<Message> {
    return NEVER;
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

  @Get('last/:id')
  @UseInterceptors(LockInterceptor.for(KEY))
  last(): Observable<string> {
    this.calls += 1;
    const { key } = currentLock();
    return this.source.pipe(map((value) => `${value} ${key}`));
  }

  @Get('method-last/:id')
  @Locked('order:<0>')
  methodLast(@Param('id') _id: string): Observable<string> {
    const { key } = currentLock();
    return this.source.pipe(map((value) => `${value} ${key}`));
  }
}

const SSE = ['events', 'promised-events', 'method-events'];
const LAST = ['last', 'method-last'];
const sourceOf = ({ app }: RequestApp): Subject<number> => app.get(Orders).source;

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

afterEach(closeAll);

describe.each(PLATFORMS)('server-sent events under a lock on %s', (platform) => {
  const start = () => startRequests(platform, { controllers: [Orders] }, { locks: { leaseMs: 1_500 } });

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
    expect(app.app.get(Orders).calls).toBe(0);
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

  // Nest sends the headers soon, whether or not the lock is acquired by then.
  it('end with an error when the key is busy and they must not wait', async () => {
    const [app, id] = [await start(), freshKey()];
    await app.locks.acquire(`order:${id}`);
    const { status, text } = await app.get(`busy/${id}`);
    if (status === 200) expect(text).toMatch(/event: error\n[^]*data: Internal server error\n/);
    else expect([status, app.failures]).toEqual([500, [expect.any(LockBusyError)]]);
    expect(text).not.toContain(id);
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

describe.each(PLATFORMS)('a handler that returns an Observable on %s', (platform) => {
  const start = () => startRequests(platform, { controllers: [Orders] });

  it.each(LAST)('(%s) holds the lock until it has ended', async (path) => {
    const [app, id] = [await start(), freshKey()];
    const answer = app.get(`${path}/${id}`);
    await eventually(() => sourceOf(app).observed);
    expect(await app.locks.isLocked(`order:${id}`)).toBe(true);
    sourceOf(app).next(1);
    sourceOf(app).next(2);
    sourceOf(app).complete();
    expect((await answer).text).toBe(`2 order:${id}`);
    expect(await app.locks.isLocked(`order:${id}`)).toBe(false);
  });

  it.each(LAST)('(%s) stops, and releases the lock, when the client goes away', async (path) => {
    const [app, id] = [await start(), freshKey()];
    const { leave } = open(app, `${path}/${id}`);
    await eventually(() => sourceOf(app).observed);
    leave();
    await untilFree(app, `order:${id}`);
    expect(sourceOf(app).observed).toBe(false);
  });
});
