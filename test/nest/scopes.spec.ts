import 'reflect-metadata';
import { Controller, Get, Inject, Injectable, Param, Scope, type Type } from '@nestjs/common';
import { ModuleRef, REQUEST } from '@nestjs/core';
import { currentLock, Locked } from '../../lib/index.js';
import { eventually } from '../support/waiting/eventually.js';
import { freshKey, startApp } from '../support/apps/lock-app.js';
import { closePlaces, gateOfTest, SideBySide, startHttp, underLock } from './support/places.js';

class Base {
  @Locked('base:<0>')
  async run(id: string): Promise<string> {
    return `${id} ${currentLock().key}`;
  }
}

@Injectable()
class Single extends Base {}

@Injectable({ scope: Scope.REQUEST })
class PerRequest extends Base {}

@Injectable({ scope: Scope.REQUEST, durable: true })
class Durable extends Base {}

@Injectable({ scope: Scope.TRANSIENT })
class Transient extends Base {}

/** Request-scoped, since it needs one that is. */
@Injectable()
class Bubbled extends Base {
  constructor(readonly perRequest: PerRequest) {
    super();
  }
}

@Injectable()
class FirstUser {
  constructor(readonly transient: Transient) {}
}

@Injectable()
class SecondUser {
  constructor(readonly transient: Transient) {}
}

afterEach(closePlaces);

describe('a provider', () => {
  it.each<[string, Type<Base>]>([
    ['a singleton', Single],
    ['request-scoped', PerRequest],
    ['request-scoped and durable', Durable],
    ['transient', Transient],
    ['request-scoped by what it needs', Bubbled],
  ])('is locked when it is %s', async (_what, type) => {
    const { app } = await startApp({}, { providers: [PerRequest, type] });
    expect(await (await app.resolve<Base>(type)).run('7')).toBe('7 base:7');
  });

  it('does not become request-scoped because of a locked method', async () => {
    const { app } = await startApp({}, { providers: [Single, FirstUser, Transient, PerRequest] });
    const scopeOf = (type: Type) => app.get(ModuleRef).introspect(type).scope;
    expect([Single, FirstUser, Transient, PerRequest].map(scopeOf)).toEqual([
      Scope.DEFAULT,
      Scope.DEFAULT,
      Scope.TRANSIENT,
      Scope.REQUEST,
    ]);
    expect(app.get(Single)).toBe(app.get(Single));
  });

  it('is locked in each of its users when it is transient', async () => {
    const { app } = await startApp({}, { providers: [FirstUser, SecondUser, Transient] });
    const [first, second] = [app.get(FirstUser).transient, app.get(SecondUser).transient];
    expect(first).not.toBe(second);
    expect([await first.run('7'), await second.run('7')]).toEqual(['7 base:7', '7 base:7']);
  });
});

interface TenantRequest {
  readonly headers: Record<string, string | undefined>;
}

class Until {
  opened: Promise<void> = Promise.resolve();
}

@Controller({ path: 'scoped', scope: Scope.REQUEST })
class ScopedController {
  constructor(
    @Inject(REQUEST) readonly request: TenantRequest,
    readonly work: SideBySide,
    readonly until: Until,
  ) {}

  @Get(':id')
  @Locked(function (this: ScopedController, id: string) {
    return `${this.request.headers['tenant']}:${id}`;
  })
  async get(@Param('id') id: string): Promise<string> {
    return this.work.run(async () => {
      await this.until.opened;
      return underLock(`${this.request.headers['tenant']} ${id}`);
    });
  }
}

describe('a controller', () => {
  it('may use its request in the key when it is request-scoped', async () => {
    const metadata = { controllers: [ScopedController], providers: [SideBySide, Until] };
    const { app, locks, get } = await startHttp(metadata, { keyPrefix: `${freshKey('scopes')}:` });
    const [until, work] = [gateOfTest(), app.get(SideBySide)];
    app.get(Until).opened = until.opened;
    const answers = ['eu', 'eu', 'us'].map((tenant) => get('scoped/7', { tenant }));
    await eventually(async () => (await locks.inspect('eu:7')).waiters === 1 && work.running === 2);
    until.open();
    expect(await Promise.all(answers)).toEqual(['eu', 'eu', 'us'].map((to) => `200 ${to} 7 under ${to}:7`));
    expect([work.most, work.total]).toEqual([2, 3]);
  });
});
