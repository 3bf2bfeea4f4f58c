import 'reflect-metadata';
import { type Type } from '@nestjs/common';
import { currentLock, Locked, LockNotHeldError, LockReentryError, ReadLocked } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

const built = async <T>(type: Type<T>): Promise<T> => (await startApp({}, { providers: [type] })).app.get(type);
const tokenAndKeys = (): string => `${currentLock().fencingToken} ${currentLock().keys.join()}`;

class Base {
  @Locked('base:<0>')
  async run(id: string): Promise<string> {
    return `${id} ${currentLock().key}`;
  }
}

afterEach(closeAll);

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

  class Reversed extends Base {
    override async run(id: string): Promise<string> {
      return (await super.run(id)).toUpperCase();
    }
  }

  it('is not locked without the decorator, while the super.run() that it calls is', async () => {
    const bare = await built(Bare);
    await expect(bare.run('7')).rejects.toBeInstanceOf(LockNotHeldError);
    expect(await bare.viaSuper('7')).toBe('7 base:7');
    expect(await (await built(Reversed)).run('7')).toBe('7 BASE:7');
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
