import 'reflect-metadata';
import { once } from 'node:events';
import { type ServerResponse } from 'node:http';
import {
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  Catch,
  Controller,
  type ExceptionFilter,
  type ExecutionContext,
  Get,
  Injectable,
  type MiddlewareConsumer,
  Module,
  type NestInterceptor,
  type NestMiddleware,
  type NestModule,
  Param,
  type PipeTransform,
  Scope,
  type Type,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common';
import { type Observable, map } from 'rxjs';
import { currentLock, Locked, LockNotHeldError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { freshKey } from '../../support/apps/lock-app.js';
import { untilFree } from '../../support/waiting/waiters.js';
import { closePlaces, gateOfTest, type HttpApp, SideBySide, startHttp, underLock } from '../support/places.js';

interface Request {
  readonly url: string;
}

interface Response {
  status(code: number): { send(body: string): void };
}

/** The last part of the path: `7` of `/order/7`. */
const idOf = (context: ArgumentsHost): string => context.switchToHttp().getRequest<Request>().url.split('/').at(-1)!;

/** What the enhancers saw, and the work of the handlers. */
class Journal extends SideBySide {
  readonly seen: string[] = [];
  until: Promise<void> = Promise.resolve();

  note(what: string): void {
    this.seen.push(underLock(what));
  }
}

@Injectable()
class Guard implements CanActivate {
  constructor(readonly journal: Journal) {}

  @Locked((context: ExecutionContext) => `guard:${idOf(context)}`, { ifBusy: 'skip' })
  async canActivate(_context: ExecutionContext): Promise<any> {
    this.journal.note('guard');
    await this.journal.until;
    return true;
  }
}

@Injectable()
class Pipe implements PipeTransform<string, Promise<string>> {
  constructor(readonly journal: Journal) {}

  @Locked('pipe:<0>')
  async transform(value: string): Promise<string> {
    this.journal.note('pipe');
    return `${value}!`;
  }
}

@Injectable()
class Around implements NestInterceptor {
  constructor(readonly journal: Journal) {}

  @Locked((context: ExecutionContext) => `around:${idOf(context)}`)
  intercept(_context: ExecutionContext, next: CallHandler): Observable<string> {
    this.journal.note('interceptor');
    return next.handle().pipe(map((value) => `${String(value)}, answered under ${currentLock().key}`));
  }
}

@Catch()
@Injectable()
class Filter implements ExceptionFilter {
  constructor(readonly journal: Journal) {}

  @Locked((_error: Error, host: ArgumentsHost) => `filter:${idOf(host)}`)
  async catch(error: Error, host: ArgumentsHost): Promise<void> {
    await this.journal.run(async () => {
      await this.journal.until;
      host
        .switchToHttp()
        .getResponse<Response>()
        .status(418)
        .send(`${error.message} ${underLock('filter')}`);
    });
  }
}

/** A request as a middleware gets it. */
interface Incoming {
  readonly originalUrl: string;
}

type Next = (error?: unknown) => void;

const keyOf = ({ originalUrl }: Incoming): string => `order:${originalUrl.split('/').at(-1)}`;

/** Locked for its own work: `next()` returns when the handler has begun. */
@Injectable()
class ForItself implements NestMiddleware {
  constructor(readonly journal: Journal) {}

  @Locked(keyOf)
  async use(_request: Incoming, _response: ServerResponse, next: Next): Promise<void> {
    this.journal.note('middleware');
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
  async use(_request: Incoming, response: ServerResponse, next: Next): Promise<void> {
    const answered = once(response, 'close');
    next();
    await answered;
  }
}

/** A `use` that the compiler refuses, since it cannot be awaited. */
export class Void implements NestMiddleware {
  // @ts-expect-error `void`: it has to return a promise, since the lock is held until that settles
  @Locked(keyOf)
  use(_request: Incoming, _response: ServerResponse, next: Next): void {
    next();
  }
}

@Controller()
class Routes {
  constructor(readonly journal: Journal) {}

  @Get('all/:id')
  @UseGuards(Guard)
  @UseInterceptors(Around)
  @UsePipes(Pipe)
  @Locked('route:<0>')
  async all(@Param('id') id: string): Promise<string> {
    this.journal.note('route');
    return id;
  }

  @Get('guarded/:id')
  @UseGuards(Guard)
  async guarded(@Param('id') id: string): Promise<string> {
    return id;
  }

  @Get('failing/:id')
  @UseFilters(Filter)
  async failing(@Param('id') id: string): Promise<string> {
    throw new Error(`failed ${id}`);
  }

  @Get('plain/:id')
  async plain(@Param('id') id: string): Promise<string> {
    return this.journal.run(async () => {
      await this.journal.until;
      return `${id} ${lockHere()}`;
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

async function start(): Promise<HttpApp & { readonly journal: Journal }> {
  const metadata = { controllers: [Routes], providers: [Journal] };
  const http = await startHttp(metadata, { keyPrefix: `${freshKey('enhancers')}:` });
  return { ...http, journal: http.app.get(Journal) };
}

async function startWith(middleware: Type<NestMiddleware>): Promise<HttpApp & { readonly journal: Journal }> {
  @Module({ controllers: [Routes], providers: [Journal] })
  class RoutesModule implements NestModule {
    configure(consumer: MiddlewareConsumer): void {
      consumer.apply(middleware).forRoutes(Routes);
    }
  }
  const http = await startHttp({ imports: [RoutesModule] }, { keyPrefix: `${freshKey('enhancers')}:` });
  return { ...http, journal: http.app.get(Journal) };
}

it('a guard, an interceptor, a pipe and the handler of one route are locked, each by its own key', async () => {
  const { get, journal } = await start();
  expect(await get('all/7')).toBe('200 7!, answered under around:7');
  expect(journal.seen).toEqual([
    'guard under guard:7',
    'interceptor under around:7',
    'pipe under pipe:7',
    'route under route:7!',
  ]);
});

describe('a guard with `ifBusy: skip`', () => {
  it('denies a request whose key is busy, admits others, and releases when it has answered', async () => {
    const { get, locks, journal } = await start();
    const until = gateOfTest();
    journal.until = until.opened;
    const first = get('guarded/7');
    await eventually(() => journal.seen.length === 1);
    expect(await get('guarded/7')).toMatch(/^403 /);
    const other = get('guarded/8');
    await eventually(() => journal.seen.length === 2);
    until.open();
    expect([await first, await other]).toEqual(['200 7', '200 8']);
    expect(await locks.isLocked('guard:7')).toBe(false);
    expect(await get('guarded/7')).toBe('200 7');
  });
});

describe('an exception filter whose catch() is locked', () => {
  it('answers under its lock, one request of a key after the other', async () => {
    const { get, locks, journal } = await start();
    const until = gateOfTest();
    journal.until = until.opened;
    const answers = [get('failing/7'), get('failing/7')];
    await eventually(async () => journal.running === 1 && (await locks.inspect('filter:7')).waiters === 1);
    until.open();
    const answer = '418 failed 7 filter under filter:7';
    expect(await Promise.all(answers)).toEqual([answer, answer]);
    expect([journal.most, journal.total]).toEqual([1, 2]);
  });
});

describe('a middleware whose use() is locked', () => {
  it.each([
    ['a singleton', ForItself],
    ['request-scoped', PerRequest],
  ])('runs as %s under its lock until its promise settles: the handler runs without it', async (_what, type) => {
    const { get, locks, journal } = await startWith(type);
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
    const { get, locks, journal } = await startWith(UntilAnswered);
    const until = gateOfTest();
    journal.until = until.opened;
    const answers = [get('plain/7'), get('plain/7'), get('plain/8')];
    await eventually(async () => journal.running === 2 && (await locks.inspect('order:7')).waiters === 1);
    until.open();
    expect(await Promise.all(answers)).toEqual(['7', '7', '8'].map((id) => `200 ${id} order:${id}`));
    expect([journal.most, journal.total]).toEqual([2, 3]);
    await untilFree({ locks }, 'order:7');
  });
});
