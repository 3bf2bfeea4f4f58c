import 'reflect-metadata';
import { once } from 'node:events';
import { type ServerResponse } from 'node:http';
import {
  Controller,
  Get,
  Injectable,
  type MiddlewareConsumer,
  Module,
  type NestMiddleware,
  type NestModule,
  Param,
  Scope,
  type Type,
} from '@nestjs/common';
import { currentLock, Locked, LockNotHeldError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { freshKey } from '../../support/apps/lock-app.js';
import { untilFree } from '../../support/waiting/waiters.js';
import { closePlaces, gateOfTest, type HttpApp, SideBySide, startHttp, underLock } from '../support/places.js';

interface Request {
  readonly originalUrl: string;
}

type Next = (error?: unknown) => void;

const keyOf = ({ originalUrl }: Request): string => `order:${originalUrl.split('/').at(-1)}`;

/** What the middleware saw, and the work of the handlers. */
class Journal extends SideBySide {
  readonly seen: string[] = [];
  until: Promise<void> = Promise.resolve();
}

/** Locked for its own work: `next()` returns when the handler has begun. */
@Injectable()
class ForItself implements NestMiddleware {
  constructor(readonly journal: Journal) {}

  @Locked(keyOf)
  async use(_request: Request, _response: ServerResponse, next: Next): Promise<void> {
    this.journal.seen.push(underLock('middleware'));
    next();
  }
}

@Injectable({ scope: Scope.REQUEST })
class PerRequest extends ForItself {}

/** Locked until the answer is sent, or the client has gone. */
@Injectable()
class UntilAnswered implements NestMiddleware {
  constructor(readonly journal: Journal) {}

  @Locked(keyOf)
  async use(_request: Request, response: ServerResponse, next: Next): Promise<void> {
    const answered = once(response, 'close');
    next();
    await answered;
  }
}

@Injectable()
class OrRefuse implements NestMiddleware {
  constructor(readonly journal: Journal) {}

  @Locked(keyOf, { ifBusy: 'throw' })
  async use(_request: Request, _response: ServerResponse, next: Next): Promise<void> {
    this.journal.seen.push(underLock('middleware'));
    await this.journal.until;
    next();
  }
}

/** What the compiler says of a `use` that cannot be waited for. */
export class Void implements NestMiddleware {
  // @ts-expect-error `void`: it has to return a promise, since the lock is held until that settles
  @Locked(keyOf)
  use(_request: Request, _response: ServerResponse, next: Next): void {
    next();
  }
}

@Controller()
class Routes {
  constructor(readonly journal: Journal) {}

  @Get('plain/:id')
  async plain(@Param('id') id: string): Promise<string> {
    return this.journal.run(async () => {
      await this.journal.until;
      return `${id} ${lockHere()}`;
    });
  }

  @Get('locked/:id')
  @Locked('order:<0>')
  async locked(@Param('id') id: string): Promise<string> {
    return this.journal.run(async () => {
      await this.journal.until;
      return underLock(id);
    });
  }
}

function lockHere(): string {
  try {
    return currentLock().key;
  } catch (error) {
    return error instanceof LockNotHeldError ? 'without a lock' : String(error);
  }
}

afterEach(closePlaces);

async function start(middleware: Type<NestMiddleware>): Promise<HttpApp & { readonly journal: Journal }> {
  @Module({ controllers: [Routes], providers: [Journal] })
  class RoutesModule implements NestModule {
    configure(consumer: MiddlewareConsumer): void {
      consumer.apply(middleware).forRoutes(Routes);
    }
  }
  const http = await startHttp({ imports: [RoutesModule] }, { keyPrefix: `${freshKey('middleware')}:` });
  return { ...http, journal: http.app.get(Journal) };
}

describe('a middleware whose use() is locked', () => {
  it.each([
    ['a singleton', ForItself],
    ['request-scoped', PerRequest],
  ])('runs as %s under its lock until its promise settles: the handler runs without it', async (_what, type) => {
    const { get, locks, journal } = await start(type);
    const until = gateOfTest();
    journal.until = until.opened;
    const answers = [get('plain/7'), get('plain/7')];
    await eventually(() => journal.running === 2);
    await untilFree({ locks }, 'order:7');
    until.open();
    expect(await Promise.all(answers)).toEqual(['200 7 without a lock', '200 7 without a lock']);
    expect(journal.seen).toEqual(['middleware under order:7', 'middleware under order:7']);
  });

  it('holds its lock while the handler runs when it waits for the response', async () => {
    const { get, locks, journal } = await start(UntilAnswered);
    const until = gateOfTest();
    journal.until = until.opened;
    const answers = [get('plain/7'), get('plain/7'), get('plain/8')];
    await eventually(async () => journal.running === 2 && (await locks.inspect('order:7')).waiters === 1);
    until.open();
    expect(await Promise.all(answers)).toEqual(['7', '7', '8'].map((id) => `200 ${id} order:${id}`));
    expect([journal.most, journal.total]).toEqual([2, 3]);
    await untilFree({ locks }, 'order:7');
  });

  it('leaves a busy key to the exception filters, and the handler does not run', async () => {
    const { get, journal } = await start(OrRefuse);
    const until = gateOfTest();
    journal.until = until.opened;
    const first = get('plain/7');
    await eventually(() => journal.seen.length === 1);
    expect(await get('plain/7')).toMatch(/^500 .*Internal server error/);
    until.open();
    expect(await first).toMatch(/^200 7 /);
    expect(journal.total).toBe(1);
  });

  it.each([
    ['for its own work', ForItself],
    ['until the answer is sent', UntilAnswered],
  ])(
    '%s and the handler of the same key do not block each other, and still exclude other requests',
    async (_w, type) => {
      const { get, journal } = await start(type);
      const until = gateOfTest();
      journal.until = until.opened;
      const answers = Array.from({ length: 5 }, () => get('locked/7'));
      await eventually(() => journal.running === 1);
      until.open();
      expect(await Promise.all(answers)).toEqual(answers.map(() => '200 7 under order:7'));
      expect([journal.most, journal.total]).toEqual([1, 5]);
    },
  );
});
