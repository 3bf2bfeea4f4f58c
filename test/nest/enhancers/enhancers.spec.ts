import 'reflect-metadata';
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
  type NestInterceptor,
  Param,
  type PipeTransform,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common';
import { type Observable, map } from 'rxjs';
import { currentLock, Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { freshKey } from '../../support/apps/lock-app.js';
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

@Injectable()
class AroundLater implements NestInterceptor {
  constructor(readonly journal: Journal) {}

  @Locked((context: ExecutionContext) => `around:${idOf(context)}`)
  async intercept(_context: ExecutionContext, next: CallHandler): Promise<Observable<string>> {
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

  @Get('around/:id')
  @UseInterceptors(Around)
  async around(@Param('id') id: string): Promise<string> {
    return this.#work(id);
  }

  @Get('later/:id')
  @UseInterceptors(AroundLater)
  async later(@Param('id') id: string): Promise<string> {
    return this.#work(id);
  }

  @Get('failing/:id')
  @UseFilters(Filter)
  async failing(@Param('id') id: string): Promise<string> {
    throw new Error(`failed ${id}`);
  }

  async #work(id: string): Promise<string> {
    return this.journal.run(async () => {
      await this.journal.until;
      return `${id} ${currentLock().key}`;
    });
  }
}

afterEach(closePlaces);

async function start(): Promise<HttpApp & { readonly journal: Journal }> {
  const metadata = { controllers: [Routes], providers: [Journal] };
  const http = await startHttp(metadata, { keyPrefix: `${freshKey('enhancers')}:` });
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

describe.each(['around', 'later'])('an interceptor whose intercept() returns an Observable (%s)', (path) => {
  it('holds the lock while the handler runs, and releases it before the answer is sent', async () => {
    const { get, locks, journal } = await start();
    const until = gateOfTest();
    journal.until = until.opened;
    const answers = [get(`${path}/7`), get(`${path}/7`), get(`${path}/8`)];
    await eventually(async () => journal.running === 2 && (await locks.inspect('around:7')).waiters === 1);
    expect(await locks.isLocked('around:7')).toBe(true);
    until.open();
    expect(await Promise.all(answers)).toEqual(
      ['7', '7', '8'].map((id) => `200 ${id} around:${id}, answered under around:${id}`),
    );
    expect([await locks.isLocked('around:7'), await locks.isLocked('around:8')]).toEqual([false, false]);
    expect([journal.most, journal.total]).toEqual([2, 3]);
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
