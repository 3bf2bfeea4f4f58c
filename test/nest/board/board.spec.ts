import 'reflect-metadata';
import { hostname } from 'node:os';
import {
  type CanActivate,
  type ExecutionContext,
  ForbiddenException,
  type INestApplication,
  Inject,
  Injectable,
  Module,
} from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  getLockServiceToken,
  LockConfigurationError,
  RedisLockModule,
  type RedisLockModuleOptions,
  RedisLockService,
} from '../../../lib/index.js';
import { RedisLockBoardModule, type RedisLockBoardOptions } from '../../../lib/board/index.js';
import { logger } from '../../../lib/interceptor/lock-logger.js';
import { startError } from '../../unit/observability/start-error.js';
import { closeAll, closeLater, freshKey } from '../../support/apps/lock-app.js';
import { disconnect, ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { PLATFORMS, type Platform, type RequestApp, startRequests } from '../support/requests.js';
import { HOSTILE_KEYS } from './hostile-keys.js';
import { type Page, readPage } from './read-page.js';

afterEach(closeAll);

const OPEN: RedisLockBoardOptions = { unguarded: true, refreshMs: 250 };

interface Start {
  readonly board?: RedisLockBoardOptions;
  readonly locks?: RedisLockModuleOptions;
  readonly prepare?: (app: INestApplication) => void;
  readonly forceCloseConnections?: boolean;
  readonly trustProxy?: boolean;
}

/** An app with a board. */
const start = (platform: Platform, { board = OPEN, ...options }: Start = {}): Promise<RequestApp> =>
  startRequests(platform, { imports: [RedisLockBoardModule.forRoot(board)] }, options);

/** A history that no other test has. */
const ownHistory = (): RedisLockModuleOptions => ({ history: true, keyPrefix: `${freshKey('history')}:` });

const watch = ({ url }: RequestApp, query: string, path = 'locks'): Promise<Page> =>
  readPage(`${url}/${path}/events?${query}`);

/** What the button of the page sends. */
const releasing = (
  key: unknown,
  headers: Record<string, string> = {},
  token: unknown = String(Number.MAX_SAFE_INTEGER),
): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', 'x-lock-board': 'force-release', ...headers },
  body: JSON.stringify({ key, token }),
});

const ROUTES: readonly [string, RequestInit?][] = [
  ['locks'],
  ['locks/index.html'],
  ['locks/board.js'],
  ['locks/board.css'],
  ['locks/events?view=locks'],
  ['locks/force-release', releasing('a')],
];

@Injectable()
class Doors {
  isOpen = false;
}

@Module({ providers: [Doors], exports: [Doors] })
class DoorsModule {}

@Injectable()
class DoorGuard implements CanActivate {
  constructor(@Inject(Doors) private readonly doors: Doors) {}

  canActivate(_context: ExecutionContext): boolean {
    if (this.doors.isOpen) return true;
    throw new ForbiddenException();
  }
}

describe.each(PLATFORMS)('the board on %s', (platform) => {
  it('is a page with a script and a style sheet, with a strict policy for all of them', async () => {
    const { get } = await start(platform);
    for (const [path, type] of [
      ['locks', 'text/html'],
      ['locks/board.js', 'text/javascript'],
      ['locks/board.css', 'text/css'],
    ] as const) {
      const { status, headers } = await get(path);
      expect([status, headers.get('content-type')]).toEqual([200, `${type}; charset=utf-8`]);
      expect(headers.get('content-security-policy')).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
          "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
      );
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('referrer-policy')).toBe('no-referrer');
      expect(headers.get('cache-control')).toBe('no-store');
    }
    const { text } = await get('locks');
    expect(text).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\bon\w+=|\bstyle=/);
  });

  it('has links that work under a global prefix, at a path of several parts, and behind a proxy', async () => {
    const board = { ...OPEN, path: '/admin/lock-board/' };
    const { get } = await start(platform, { board, prepare: (app) => app.setGlobalPrefix('api') });
    const linksOf = ({ text }: { text: string }): string[] =>
      [...text.matchAll(/(?:src|href)="([^"#]*board\.\w+)"/g)].map(([, link]) => link!);
    const page = await get('api/admin/lock-board');
    expect(linksOf(page)).toEqual(['lock-board/board.css', 'lock-board/board.js']);
    expect((await get('api/admin/lock-board/board.js')).status).toBe(200);
    expect(linksOf(await get('api/admin/lock-board/index.html'))).toEqual(['board.css', 'board.js']);
  });

  it('sends a page the holder of each lock, and keeps sending changes', async () => {
    const app = await start(platform);
    const lock = await app.locks.acquire(freshKey(), { mode: 'read' });
    const page = await watch(app, 'view=locks');
    expect(page.headers.get('content-type')).toMatch('text/event-stream');
    const find = (): Promise<any> => page.next('state', ({ locks }) => locks.find(({ key }: any) => key === lock.key));
    expect(await find()).toMatchObject({
      key: lock.key,
      mode: 'read',
      waiters: 0,
      holders: [
        { mode: 'read', token: String(lock.fencingToken), instance: expect.stringContaining(`:${process.pid}`) },
      ],
    });
    await lock.release();
    await page.next('state', ({ locks }) => !locks.some(({ key }: any) => key === lock.key));
  });

  it('sends the page of one lock its holders and waiters', async () => {
    const app = await start(platform);
    const lock = await app.locks.acquire(freshKey());
    const waiting = app.locks.acquire(lock.key, { fair: 'strict' });
    await untilWaiting(app, lock.key);
    const page = await watch(app, `view=lock&key=${encodeURIComponent(lock.key)}`);
    const shown = await page.next('state', (state) => state.lock.waiters === 1 && state.lock);
    expect(shown).toMatchObject({ key: lock.key, mode: 'write', holderCount: 1 });
    await lock.release();
    await (await waiting).release();
  });

  it('sends the page of a semaphore the number of permits that are taken', async () => {
    const app = await start(platform);
    const lock = await app.locks.acquire(freshKey(), { mode: 'read', permits: 3, take: 2 });
    const page = await watch(app, `view=lock&key=${encodeURIComponent(lock.key)}`);
    const { permits } = await page.next('state', (state) => state.lock);
    expect(permits).toEqual({ allowed: 3, used: 2, available: 1 });
    await lock.release();
  });

  it('asks the guard for every route', async () => {
    const board = { guard: DoorGuard, imports: [DoorsModule], actions: { forceRelease: true } };
    const { app, get } = await start(platform, { board });
    for (const [path, init] of ROUTES) expect([path, (await get(path, init)).status]).toEqual([path, 403]);
    app.get(Doors, { strict: false }).isOpen = true;
    for (const [path, init] of ROUTES.filter(([path]) => !path.includes('events'))) {
      expect([path, (await get(path, init)).status]).toEqual([path, 200]);
    }
  });

  it('answers HEAD with headers alone, also where it streams', async () => {
    const { get } = await start(platform);
    for (const [path, type] of [
      ['locks', 'text/html'],
      ['locks/events?view=locks', 'text/event-stream'],
    ] as const) {
      const { status, headers, text } = await get(path, { method: 'HEAD', signal: AbortSignal.timeout(20_000) });
      expect([status, headers.get('content-type'), text]).toEqual([200, `${type}; charset=utf-8`, '']);
    }
    expect((await get('locks/events?view=nothing', { method: 'HEAD' })).status).toBe(400);
  });

  it('takes a lock away for a user whose name comes later, and not when that fails', async () => {
    const user = async ({ headers }: { headers: Record<string, string> }): Promise<string> => {
      if (headers['x-user']) return headers['x-user'];
      throw new Error('The directory of users is down.');
    };
    const board = { ...OPEN, actions: { forceRelease: true, user } };
    const { get, locks } = await start(platform, { board, locks: ownHistory() });
    const lock = await locks.acquire(freshKey());
    const { signal } = lock;
    const error = jest.spyOn(logger, 'error');
    expect((await get('locks/force-release', releasing(lock.key))).status).toBe(403);
    expect(error.mock.calls.at(-1)).toEqual([
      'The function `actions.user` of RedisLockBoardModule failed: The directory of users is down.',
    ]);
    expect(signal.aborted).toBe(false);
    expect((await get('locks/force-release', releasing(lock.key, { 'x-user': 'ada' }))).status).toBe(200);
    await eventually(() => signal.aborted);
    const forced = async () => (await locks.history({ key: lock.key })).find(({ event }) => event === 'forced');
    expect(await eventually(forced)).toMatchObject({ by: 'ada' });
  });

  it('takes a lock away for a user that the app names, and notifies the holder', async () => {
    const user = ({ headers }: { headers: Record<string, string> }): string => headers['x-user']!;
    const { get, locks } = await start(platform, { board: { ...OPEN, actions: { forceRelease: true, user } } });
    const lock = await locks.acquire(`${freshKey()}\n`);
    const { signal } = lock;
    const warn = jest.spyOn(logger, 'warn');
    expect((await get('locks/force-release', releasing(lock.key))).status).toBe(403);
    expect(signal.aborted).toBe(false);
    const { status, text } = await get('locks/force-release', releasing(lock.key, { 'x-user': 'ada' }));
    expect([status, JSON.parse(text)]).toEqual([200, { wasHeld: true }]);
    await eventually(() => signal.aborted);
    expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
    const [line] = warn.mock.calls.at(-1)!;
    const shown = `"${lock.key.trimEnd()}\\n"`;
    expect(line).toBe(`The lock ${shown} was revoked with forceRelease by ada: its holders have lost it.`);
    const again = await get('locks/force-release', releasing(lock.key, { 'x-user': 'ada' }));
    expect(JSON.parse(again.text)).toEqual({ wasHeld: false });
    expect(warn.mock.calls.at(-1)).toEqual([`ada released the lock ${shown} by force; it was not held.`]);
  });

  it('sends the page of one lock its history, with the user who took it away', async () => {
    const name = `<img src=x>${'a'.repeat(116)}\u{1f600}, and more than a name may have`;
    const board = { ...OPEN, actions: { forceRelease: true, user: () => name } };
    const app = await start(platform, { board, locks: ownHistory() });
    const lock = await app.locks.acquire(freshKey(), { note: '<b>order 7</b>' });
    const { signal } = lock;
    const page = await watch(app, `view=lock&key=${encodeURIComponent(lock.key)}`);
    expect((await app.get('locks/force-release', releasing(lock.key))).status).toBe(200);
    await eventually(() => signal.aborted);
    const { entries, limit } = await page.next('state', ({ history }) => history.entries.length === 3 && history);
    expect(limit).toBe(50);
    const common = { key: lock.key, instance: expect.stringContaining(`:${process.pid}`), at: expect.any(Number) };
    const token = String(lock.fencingToken);
    const byEvent = new Map(entries.map((entry: { event: string }) => [entry.event, entry]));
    const by = `<img src=x>${'a'.repeat(116)}\u{fffd}`;
    expect(byEvent.get('forced')).toMatchObject({ ...common, by, where: '', note: '', ms: null, token: '' });
    expect(byEvent.get('lost')).toMatchObject({ ...common, reason: 'revoked', note: '<b>order 7</b>', token });
    expect(byEvent.get('acquired')).toMatchObject({ ...common, by: '', reason: '', ms: expect.any(Number), token });
  });

  it('reports to the page of one lock that the app keeps no history', async () => {
    const app = await start(platform);
    const page = await watch(app, `view=lock&key=${freshKey()}`);
    expect(await page.next('state', (state) => state)).toMatchObject({ lock: { mode: 'free' }, history: null });
    const all = await watch(app, 'view=history');
    expect(await all.next('state', (state) => state)).toMatchObject({ history: null });
  });

  it('sends a page the history of all locks, the newest first', async () => {
    const app = await start(platform, { locks: ownHistory() });
    const page = await watch(app, 'view=history');
    expect(await page.next('state', (state) => state)).toMatchObject({ history: { entries: [], limit: 200 } });
    const key = freshKey();
    for (let i = 0; i < 101; i += 1) await app.locks.withLock(`${key}:${i}`, () => undefined);
    const isLast = ([first]: { key: string; event: string }[]): boolean =>
      first?.key === `${key}:100` && first.event === 'released';
    const entries = await page.next('state', ({ history }) => isLast(history.entries) && history.entries);
    expect(entries).toHaveLength(200);
    expect(entries.at(-1)).toMatchObject({ key: `${key}:1`, event: 'acquired' });
    const { older } = await page.next('state', ({ history }) => isLast(history.entries) && history);
    const next = await watch(app, `view=history&before=${encodeURIComponent(older)}`);
    const { entries: rest } = await next.next('state', ({ history }) => history);
    expect(rest).toMatchObject([
      { key: `${key}:0`, event: 'released' },
      { key: `${key}:0`, event: 'acquired' },
    ]);
  });

  it('leaves a holder alone that came after the one that the page showed, and names it', async () => {
    const { get, locks } = await start(platform, { board: { ...OPEN, actions: { forceRelease: true } } });
    const seen = await locks.acquire(freshKey());
    const { fencingToken } = await locks.inspect(seen.key);
    await seen.release();
    const later = await locks.acquire(seen.key);
    const { status, text } = await get('locks/force-release', releasing(seen.key, {}, String(fencingToken)));
    expect([status, JSON.parse(text).error]).toEqual([
      409,
      `Another caller holds this lock by now: ${hostname()}:${process.pid}, with the token ${later.fencingToken}. ` +
        'The holders that you saw are gone. Look again.',
    ]);
    expect(await locks.isLocked(seen.key)).toBe(true);
    for (const token of [undefined, 7, '-1', '99999999999999999999']) {
      expect((await get('locks/force-release', releasing(seen.key, {}, token ?? null))).status).toBe(400);
    }
    await later.release();
  });

  it('refuses an action from another site', async () => {
    const { get, locks } = await start(platform, { board: { ...OPEN, actions: { forceRelease: true } } });
    const lock = await locks.acquire(freshKey());
    const crossSite = releasing(lock.key, { 'sec-fetch-site': 'cross-site' });
    expect((await get('locks/force-release', crossSite)).status).toBe(403);
    expect(await locks.isLocked(lock.key)).toBe(true);
    await lock.release();
  });

  it.each([
    [false, 403],
    [true, 200],
  ])('takes X-Forwarded-Host for its own host only if the app trusts the proxy: %s', async (trustProxy, expected) => {
    const board = { ...OPEN, actions: { forceRelease: true } };
    const { get, locks } = await start(platform, { board, trustProxy, prepare: (app) => app.enableCors() });
    const lock = await locks.acquire(freshKey());
    const headers = { origin: 'http://other.example', 'x-forwarded-host': 'other.example' };
    expect((await get('locks/force-release', releasing(lock.key, headers))).status).toBe(expected);
    expect((await get('locks/events?view=locks', { headers, method: 'HEAD' })).status).toBe(expected);
    expect(await locks.isLocked(lock.key)).toBe(!trustProxy);
    await lock.release().catch(() => undefined);
  });

  it('refuses a key that is none, and a stream of another site or of nothing', async () => {
    const { get } = await start(platform, { board: { ...OPEN, actions: { forceRelease: true } } });
    expect((await get('locks/force-release', releasing(7))).status).toBe(400);
    expect((await get('locks/force-release', releasing(''))).status).toBe(400);
    expect((await get('locks/events?view=nothing')).status).toBe(400);
    expect((await get('locks/events?view=lock&key=a&key=b')).status).toBe(400);
    const { status } = await get('locks/events?view=locks', { headers: { 'sec-fetch-site': 'cross-site' } });
    expect(status).toBe(403);
  });

  it('ends its streams when the app closes, which does not wait for the pages', async () => {
    const app = await start(platform, { forceCloseConnections: false });
    const pages = [await watch(app, 'view=locks'), await watch(app, 'view=lock&key=a')];
    for (const page of pages) await page.next('state', () => true);
    await app.close();
    for (const page of pages) await page.ended();
  });
});

describe('the board on an app that takes paths in any case, and with a slash at the end', () => {
  it.each(['Locks', 'locks/', 'LOCKS/index.html/'])('has links that work at %s', async (path) => {
    const { get, url } = await start('express');
    const { status, text } = await get(path);
    expect(status).toBe(200);
    const links = [...text.matchAll(/(?:src|href)="([^"#]*board\.\w+)"/g)].map(([, link]) => link!);
    expect(links).toHaveLength(2);
    for (const link of links) expect((await fetch(new URL(link, `${url}/${path}`))).status).toBe(200);
  });
});

describe('RedisLockBoardModule', () => {
  it('sends hostile keys as data', async () => {
    const app = await start('express');
    for (const [, key] of HOSTILE_KEYS) {
      const lock = await app.locks.acquire(key);
      const page = await watch(app, `view=lock&key=${encodeURIComponent(key)}`);
      expect(await page.next('state', (state) => state.lock)).toMatchObject({ key, holderCount: 1 });
      await lock.release();
    }
  });

  it('shows on each page what is wrong while Redis is away, and continues afterwards', async () => {
    const proxy = await proxyTo();
    const app = await start('express', { locks: { connection: proxy.url, ...ownHistory() } });
    const views = ['locks', 'lock&key=a', 'history', 'losses'];
    const pages = await Promise.all(views.map((view) => watch(app, `view=${view}`)));
    await Promise.all(pages.map((page) => page.next('state', () => true)));
    disconnect(proxy);
    const failures = await Promise.all(pages.map((page) => page.next('failed', (failed) => failed)));
    expect(failures).toEqual(views.map(() => ({ isAway: true, error: expect.stringMatching(/Redis/) })));
    proxy.refuse(false);
    await Promise.all(pages.map((page) => page.next('state', () => true)));
  });

  it('shows the other locks and jobs when one lock cannot be read', async () => {
    const { url, admin } = await ownRedis();
    const app = await start('express', { locks: { connection: url } });
    await admin.hset('lock:damaged', { s: `A${'0'.repeat(13)}`, 'job:Job': 'no run' });
    const lock = await app.locks.acquire('held');
    const problem = expect.stringContaining('newer version');
    const { locks } = await (await watch(app, 'view=locks')).next('state', (state) => state);
    expect(locks).toHaveLength(2);
    expect(locks).toEqual(
      expect.arrayContaining([expect.objectContaining({ key: 'damaged', mode: 'unknown', problem })]),
    );
    const { jobs } = await (await watch(app, 'view=jobs')).next('state', (state) => state);
    expect(jobs).toMatchObject([{ key: 'damaged', problem }]);
    const page = await watch(app, 'view=lock&key=damaged');
    expect(await page.next('failed', (failed) => failed)).toMatchObject({ isAway: false });
    await lock.release();
  });

  it('names a permission that the user lacks, and does not take that for an outage', async () => {
    const { url, admin } = await ownRedis();
    await admin.call('ACL', 'SETUSER', 'default', '-scan');
    const page = await watch(await start('express', { locks: { connection: url } }), 'view=locks');
    const error = expect.stringMatching(/NOPERM.*"A user for locks only"/);
    expect(await page.next('failed', (failed) => failed)).toEqual({ isAway: false, error });
  });

  it('shows the locks of the connection in its options', async () => {
    const jobsModule = RedisLockModule.forRoot({ name: 'jobs', connection: redisUrl(), keyPrefix: `${freshKey()}:` });
    const boards = [
      RedisLockBoardModule.forRoot(OPEN),
      RedisLockBoardModule.forRootAsync({
        path: 'job-locks',
        connection: 'jobs',
        unguarded: true,
        useFactory: async () => ({ refreshMs: 250, actions: { forceRelease: true } }),
      }),
    ];
    const app = await startRequests('express', { imports: [jobsModule, ...boards] });
    const jobs = app.app.get<RedisLockService>(getLockServiceToken('jobs'));
    const lock = await jobs.acquire(freshKey());
    const page = await watch(app, 'view=locks', 'job-locks');
    expect(await page.next('board', (about) => about)).toMatchObject({ connection: 'jobs', canForceRelease: true });
    expect(await page.next('state', ({ locks }) => locks)).toMatchObject([{ key: lock.key }]);
    const other = await watch(app, 'view=locks');
    expect(await other.next('board', (about) => about)).toMatchObject({ connection: null, canForceRelease: false });
    expect((await app.get('locks/force-release', releasing('a'))).status).toBe(404);
    await lock.release();
  });

  it('is not in the OpenAPI document of the app', async () => {
    const { app } = await start('express', { board: { ...OPEN, actions: { forceRelease: true } } });
    const types = [...app.get(ModulesContainer).values()].flatMap(({ controllers }) => [...controllers.values()]);
    // What `@ApiExcludeController()` of @nestjs/swagger sets.
    const excluded: unknown[] = types.map(({ metatype }) =>
      Reflect.getMetadata('swagger/apiExcludeController', metatype!),
    );
    expect(excluded).toEqual([[true]]);
  });

  it('does not start with an unknown connection, and names what to import', async () => {
    const error = await startError([RedisLockBoardModule.forRoot({ unguarded: true, connection: 'jobs' })]);
    expect(error.message).toMatch(/RedisLockBoardModule.*"jobs".*RedisLockModule\.forRoot\(\{ name: 'jobs' \}\)/);
  });

  it('does not start with a mock of the service, and names what to import', async () => {
    const modules = [RedisLockModule.forRoot({ connection: redisUrl() }), RedisLockBoardModule.forRoot(OPEN)];
    const testing = Test.createTestingModule({ imports: modules });
    const app = await testing.overrideProvider(RedisLockService).useValue({ events: {} }).compile();
    closeLater(app);
    const error = await rejection(app.init());
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toMatch(/RedisLockBoardModule.* mock .*RedisLockTestingModule\.forRoot\(\)/);
  });
});
