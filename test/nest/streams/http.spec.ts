import 'reflect-metadata';
import { Controller, Get, type INestApplication, Param, Sse } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Observable, Subject, map } from 'rxjs';
import { currentLock, Locked, RedisLockModule, RedisLockService } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, closeLater, freshKey } from '../../support/apps/lock-app.js';
import { redisUrl } from '../../support/topologies/topology.js';

@Controller()
class Routes {
  readonly source = new Subject<number>();

  @Get('last/:id')
  @Locked('route:<0>')
  last(@Param('id') _id: string): Observable<string> {
    const { key } = currentLock();
    return this.source.pipe(map((value) => `${value} ${key}`));
  }

  @Sse('events/:id')
  @Locked('route:<0>')
  events(@Param('id') _id: string): Observable<{ data: string }> {
    const { key } = currentLock();
    return this.source.pipe(map((value) => ({ data: `${value} ${key}` })));
  }
}

let app: INestApplication;
let url: string;

beforeEach(async () => {
  const lockModule = RedisLockModule.forRoot({ connection: redisUrl(), drainMs: 500 });
  const compiled = await Test.createTestingModule({ imports: [lockModule], controllers: [Routes] }).compile();
  app = closeLater(compiled.createNestApplication({ forceCloseConnections: true }));
  await app.listen(0, '127.0.0.1');
  url = await app.getUrl();
});

afterEach(closeAll);

const isLocked = (id: string): Promise<boolean> => app.get(RedisLockService).isLocked(`route:${id}`);

describe('a route that returns an Observable', () => {
  it('answers with its last value, and holds the lock until then', async () => {
    const [id, { source }] = [freshKey(), app.get(Routes)];
    const answer = fetch(`${url}/last/${id}`);
    await eventually(() => source.observed);
    expect(await isLocked(id)).toBe(true);
    source.next(1);
    source.next(2);
    source.complete();
    expect(await (await answer).text()).toBe(`2 route:${id}`);
    expect(await isLocked(id)).toBe(false);
  });

  it('holds the lock until the client goes when it sends events', async () => {
    const [id, { source }] = [freshKey(), app.get(Routes)];
    const gone = new AbortController();
    const answer = await fetch(`${url}/events/${id}`, { signal: gone.signal });
    await eventually(() => source.observed);
    expect(await isLocked(id)).toBe(true);
    const reader = answer.body!.getReader();
    source.next(1);
    let text = '';
    while (!text.includes('data: ')) text += Buffer.from((await reader.read()).value ?? 'ended: data: ').toString();
    expect(text).toContain(`data: 1 route:${id}`);
    expect(await isLocked(id)).toBe(true);
    gone.abort();
    await eventually(async () => !(await isLocked(id)));
    expect(source.observed).toBe(false);
  });

  it('ends with its source, and frees the lock, when it sends events', async () => {
    const [id, { source }] = [freshKey(), app.get(Routes)];
    const answer = await fetch(`${url}/events/${id}`);
    await eventually(() => source.observed);
    source.next(7);
    source.complete();
    expect(await answer.text()).toContain(`data: 7 route:${id}`);
    await eventually(async () => !(await isLocked(id)));
  });
});
