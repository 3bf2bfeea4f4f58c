import 'reflect-metadata';
import { Injectable, mixin, Scope, type Type } from '@nestjs/common';
import { currentLock, Locked, LockNotHeldError, LockReentryError, ReadLocked } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

afterEach(closeAll);

const built = async <T>(type: Type<T>, ...others: Type[]): Promise<T> =>
  (await startApp({}, { providers: [type, ...others] })).app.get(type);

const tokenAndKeys = (): string => `${currentLock().fencingToken} ${currentLock().keys.join()}`;

class Base {
  @Locked('base:<0>')
  async run(id: string): Promise<string> {
    return `${id} ${currentLock().key}`;
  }
}

abstract class Abstract {
  abstract name(): string;

  @Locked('abstract')
  async run(_id: string): Promise<string> {
    return `${this.name()} ${currentLock().key}`;
  }
}

class Concrete extends Abstract {
  name(): string {
    return 'concrete';
  }
}

class Child extends Base {
  @Locked('child:<0>')
  async own(id: string): Promise<string> {
    return `${id} ${currentLock().key}`;
  }
}

class Grandchild extends Child {}

@Injectable()
class Needy extends Base {
  constructor(readonly child: Child) {
    super();
  }
}

const mixed = (name: string) => {
  class Mixed {
    @Locked(`mixed:${name}`)
    async run(_id: string): Promise<string> {
      return currentLock().key;
    }
  }
  return mixin(Mixed);
};

const mixedInto = <T extends Type<Base>>(base: T) => {
  class Mixed extends (base as Type<Base>) {
    @Locked('added:<0>')
    async added(id: string): Promise<string> {
      return `${await this.run(id)} ${currentLock().key}`;
    }
  }
  return mixin(Mixed);
};

abstract class Repository<T extends { readonly id: string }> {
  @Locked((entity: { readonly id: string }) => `entity:${entity.id}`)
  async save(entity: T): Promise<T & { key: string }> {
    return { ...entity, key: currentLock().key };
  }
}

class Orders extends Repository<{ id: string; total: number }> {}

describe('a method', () => {
  it.each<[string, () => Promise<unknown>, unknown]>([
    ['is inherited from an abstract class', async () => (await built(Concrete)).run('7'), 'concrete abstract'],
    ['is inherited together with a method of the subclass', async () => (await built(Child)).run('7'), '7 base:7'],
    ['coexists with an inherited one', async () => (await built(Child)).own('7'), '7 child:7'],
    ['is inherited from two levels above', async () => (await built(Grandchild)).run('7'), '7 base:7'],
    ['is inherited by a class with a constructor', async () => (await built(Needy, Child)).run('7'), '7 base:7'],
    ['is that of a mixin', async () => (await built(mixed('a'), mixed('b'))).run('7'), 'mixed:a'],
    [
      'is added by a mixin to a class with a locked method',
      async () => (await built(mixedInto(Base))).added('7'),
      '7 base:7 added:7',
    ],
    ['has a generic argument', async () => (await (await built(Orders)).save({ id: '7', total: 5 })).key, 'entity:7'],
  ])('is locked by its own key when it %s', async (_what, call, expected) => {
    expect(await call()).toBe(expected);
  });

  it('has the same key in all subclasses, so that they exclude each other', async () => {
    class Slow {
      @Locked('slow:<0>', { ifBusy: 'skip' })
      async run(id: string, nested: () => Promise<unknown>): Promise<unknown> {
        return (await nested()) ?? `ran ${id}`;
      }
    }
    class A extends Slow {}
    class B extends Slow {}
    const [a, b, key] = [await built(A), await built(B), freshKey()];
    const seen: unknown[] = [];
    expect(await a.run(key, async () => void seen.push(await b.run(key, async () => 'ran inside')))).toBe(`ran ${key}`);
    expect(seen).toEqual([undefined]);
  });
});

describe('a method whose name is a symbol', () => {
  const RUN = Symbol('run');

  class Named {
    @Locked('named:<0>')
    async [RUN](id: string): Promise<string> {
      return `${id} ${currentLock().key}`;
    }
  }

  class Inherits extends Named {
    @Locked('own:<0>')
    override async [RUN](id: string): Promise<string> {
      return `${await super[RUN](id)} ${currentLock().key}`;
    }
  }

  it('is locked, even when inherited, and events name it', async () => {
    const { app, locks } = await startApp({}, { providers: [Named, Inherits] });
    const where: string[] = [];
    locks.events.on('acquired', (event) => where.push(event.where ?? ''));
    expect(await app.get(Inherits)[RUN]('7')).toBe('7 named:7 own:7');
    expect(where).toEqual(['Inherits.Symbol(run)', 'Named.Symbol(run)']);
  });
});

describe('an override', () => {
  class Bare extends Base {
    override async run(_id: string): Promise<string> {
      return currentLock().key;
    }

    async viaSuper(id: string): Promise<string> {
      return super.run(id);
    }
  }

  class Outer {
    @Locked('outer:<0>')
    async run(_id: string): Promise<string[]> {
      return [tokenAndKeys()];
    }
  }

  class SameKey extends Outer {
    @Locked('outer:<0>')
    override async run(id: string): Promise<string[]> {
      return [tokenAndKeys(), ...(await super.run(id)), tokenAndKeys()];
    }
  }

  class OtherKey extends Outer {
    @Locked('other:<0>')
    override async run(id: string): Promise<string[]> {
      const inner = await super.run(id);
      return [currentLock(`other:${id}`).key, ...inner.map((text) => text.split(' ')[1]!), currentLock().key];
    }
  }

  class Weaker extends Outer {
    @ReadLocked('outer:<0>')
    override async run(id: string): Promise<string[]> {
      return super.run(id);
    }
  }

  it('is not locked without the decorator, while the super.run() that it calls is', async () => {
    const bare = await built(Bare);
    await expect(bare.run('7')).rejects.toBeInstanceOf(LockNotHeldError);
    expect(await bare.viaSuper('7')).toBe('7 base:7');
  });

  it('enters super.run() under the same hold and fencing token when the key is the same', async () => {
    const key = freshKey();
    const answers = await (await built(SameKey)).run(key);
    expect(answers).toHaveLength(3);
    expect(new Set(answers).size).toBe(1);
    expect(answers[0]).toMatch(new RegExp(`^\\d+ outer:${key}$`));
  });

  it('holds both locks while super.run() runs when the key differs', async () => {
    expect(await (await built(OtherKey)).run('7')).toEqual(['other:7', 'outer:7', 'other:7']);
  });

  it('rejects with LockReentryError, rather than wait for itself, when it reads what super.run() writes', async () => {
    await expect((await built(Weaker)).run(freshKey())).rejects.toBeInstanceOf(LockReentryError);
  });
});

@Injectable()
class Single extends Base {}

@Injectable({ scope: Scope.REQUEST })
class PerRequest extends Base {}

@Injectable({ scope: Scope.REQUEST, durable: true })
class Durable extends Base {}

@Injectable({ scope: Scope.TRANSIENT })
class Transient extends Base {}

/** Request-scoped, because its dependency is. */
@Injectable()
class Bubbled extends Base {
  constructor(readonly perRequest: PerRequest) {
    super();
  }
}

describe('a provider', () => {
  it.each<[string, Type<Base>]>([
    ['a singleton', Single],
    ['request-scoped', PerRequest],
    ['request-scoped and durable', Durable],
    ['transient', Transient],
    ['request-scoped because of a dependency', Bubbled],
  ])('is locked when it is %s', async (_what, type) => {
    const { app } = await startApp({}, { providers: [PerRequest, type] });
    expect(await (await app.resolve<Base>(type)).run('7')).toBe('7 base:7');
  });
});
