import 'reflect-metadata';
import { Injectable, mixin, type ModuleMetadata, type Type } from '@nestjs/common';
import { currentLock, Locked } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

const appWith = async (providers: ModuleMetadata['providers']) => (await startApp({}, { providers })).app;

class Base {
  @Locked('base:<0>')
  async run(id: string): Promise<string> {
    return `${id} ${currentLock().key}`;
  }
}

afterEach(closeAll);

describe('an inherited method', () => {
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

  it.each<[string, Type<Base>, string]>([
    ['an abstract class', Concrete, 'concrete abstract'],
    ['a class, in a subclass with decorators of its own,', Child, '7 base:7'],
    ['a class two levels above', Grandchild, '7 base:7'],
    ['a class, in a subclass with a constructor,', Needy, '7 base:7'],
  ])('is locked: %s', async (_what, type, expected) => {
    const app = await appWith([Child, type]);
    expect(await app.get<Base>(type).run('7')).toBe(expected);
  });

  it('is locked beside the methods of the subclass, each by its own key', async () => {
    expect(await (await appWith([Child])).get(Child).own('7')).toBe('7 child:7');
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
    const [{ app: a }, { app: b }] = [await startApp({}, { providers: [A] }), await startApp({}, { providers: [B] })];
    const key = freshKey();
    const seen: unknown[] = [];
    const inner = async () => void seen.push(await b.get(B).run(key, async () => 'ran inside'));
    expect(await a.get(A).run(key, inner)).toBe(`ran ${key}`);
    expect(seen).toEqual([undefined]);
  });
});

describe('two subclasses of one base', () => {
  abstract class Sync {
    abstract readonly source: string;

    @Locked(function (this: Sync, id: string) {
      return `${this.source}:${id}`;
    })
    async sync(id: string, nested?: () => Promise<string>): Promise<string> {
      return `${currentLock().key} ${nested ? await nested() : id}`;
    }
  }

  class FromShop extends Sync {
    readonly source = 'shop';
  }

  class FromBank extends Sync {
    readonly source = 'bank';
  }

  it('have different keys by a key function that reads `this`, and do not block each other', async () => {
    const [a, b] = [await appWith([FromShop]), await appWith([FromBank])];
    const answer = await a.get(FromShop).sync('7', () => b.get(FromBank).sync('7'));
    expect(answer).toBe('shop:7 bank:7 7');
  });
});

describe('a mixin', () => {
  const locked = (name: string) => {
    class Mixed {
      @Locked(`mixed:${name}`)
      async run(_id: string): Promise<string> {
        return currentLock().key;
      }
    }
    return mixin(Mixed);
  };

  const lockedOn = <T extends Type<Base>>(base: T) => {
    class Mixed extends (base as Type<Base>) {
      @Locked('added:<0>')
      async added(id: string): Promise<string> {
        return `${await this.run(id)} ${currentLock().key}`;
      }
    }
    return mixin(Mixed);
  };

  it('is locked by the key that it was created with', async () => {
    const [A, B] = [locked('a'), locked('b')];
    const app = await appWith([A, B]);
    expect(await Promise.all([app.get<Base>(A).run('7'), app.get<Base>(B).run('7')])).toEqual(['mixed:a', 'mixed:b']);
  });

  it('adds a locked method to a class that has one', async () => {
    const Mixed = lockedOn(Base);
    expect(await (await appWith([Mixed])).get(Mixed).added('7')).toBe('7 base:7 added:7');
  });
});

describe('a generic class', () => {
  abstract class Repository<T extends { readonly id: string }> {
    @Locked((entity: { readonly id: string }) => `entity:${entity.id}`)
    async save(entity: T): Promise<T & { key: string }> {
      return { ...entity, key: currentLock().key };
    }
  }

  class Orders extends Repository<{ id: string; total: number }> {}

  it('is locked by a key function that reads its type argument', async () => {
    const orders = (await appWith([Orders])).get(Orders);
    expect(await orders.save({ id: '7', total: 5 })).toEqual({ id: '7', total: 5, key: 'entity:7' });
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
