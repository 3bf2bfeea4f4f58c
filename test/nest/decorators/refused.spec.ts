import 'reflect-metadata';
import {
  Limited,
  LockConfigurationError,
  LockInterceptor,
  Locked,
  LockKeyError,
  ReadLocked,
  WriteLocked,
} from '../../../lib/index.js';
import { charge, FACTORIES, STANDARD, standardCall, type Unchecked } from '../support/refused-decorators.js';
import { thrownBy } from '../../support/waiting/rejection.js';

const decorators = {
  Locked: Locked('k'),
  WriteLocked: WriteLocked('k'),
  ReadLocked: ReadLocked('k'),
  Limited: Limited('k', 2),
};
const names = Object.keys(decorators) as (keyof typeof decorators)[];
const locked = decorators.Locked as unknown as MethodDecorator & PropertyDecorator & ClassDecorator;

const DEFINITIONS: Record<string, () => unknown> = {
  'a getter': () => {
    class Orders {
      @locked
      get charge(): number {
        return 1;
      }
    }
    return Orders;
  },
  'a setter': () => {
    class Orders {
      @locked
      set charge(_value: number) {}
    }
    return Orders;
  },
  'a static method': () => {
    class Orders {
      @locked
      static async charge(): Promise<void> {}
    }
    return Orders;
  },
  'a static getter': () => {
    class Orders {
      @locked
      static get charge(): number {
        return 1;
      }
    }
    return Orders;
  },
  'a static field with an arrow function': () => {
    class Orders {
      @locked
      static charge = async (): Promise<void> => {};
    }
    return Orders;
  },
  'a field with an arrow function': () => {
    class Orders {
      @locked
      charge = async (): Promise<void> => {};
    }
    return Orders;
  },
  'a field that is no function': () => {
    class Orders {
      @locked
      charge = 1;
    }
    return Orders;
  },
};

describe('a member that cannot be locked', () => {
  it.each(Object.keys(DEFINITIONS))(
    '%s is refused when the class is defined, with its name and what to do',
    (member) => {
      const error = thrownBy(DEFINITIONS[member]!);
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(/^Orders\.charge: .*; put the decorator on a method of a class\.$/);
      expect(error.message.includes('a static method')).toBe(member.includes('static'));
    },
  );

  it.each(names)('is refused by @%s', (name) => {
    class Orders {
      static async charge(): Promise<void> {}
    }
    const descriptor = Object.getOwnPropertyDescriptor(Orders, 'charge');
    const apply = decorators[name] as unknown as Unchecked;
    expect(thrownBy(() => apply(Orders, 'charge', descriptor))).toBeInstanceOf(LockConfigurationError);
  });

  it('is a method whose value is not a function', () => {
    class Orders {}
    const apply = decorators.Locked as unknown as Unchecked;
    const error = thrownBy(() => apply(Orders.prototype, 'charge', { value: 5, writable: true }));
    expect(error.message).toMatch(/^Orders\.charge: expected a method to lock/);
  });

  it('is a class itself, and the message names the class and no method', () => {
    const define = () => {
      @locked
      class Orders {
        async charge(): Promise<void> {}
      }
      return Orders;
    };
    const error = thrownBy(define);
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toMatch(/^Orders: .*put the decorator on a method/);
    expect(error.message).not.toMatch(/undefined|static method/);
  });

  it.each([
    ['a method', (Orders: Function) => locked(Orders.prototype as object, 'charge', 0 as never)],
    ['a constructor', (Orders: Function) => locked(Orders, undefined as never, 0 as never)],
  ])('is a parameter of %s', (_member, define) => {
    class Orders {
      async charge(_id: string): Promise<void> {}
    }
    const error = thrownBy(() => define(Orders));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toMatch(/^Orders(\.charge)?: .*; put the decorator on a method of a class\.$/);
  });
});

describe('a decorator without a key', () => {
  it.each(names)('is refused: @%s', (name) => {
    const decorator = FACTORIES[name] as unknown as (...args: unknown[]) => MethodDecorator;
    for (const key of [undefined, null, 5, '']) {
      const define = () => {
        class Orders {
          @(name === 'Limited' ? decorator(key, 5) : decorator(key))
          async charge(): Promise<void> {}
        }
        return Orders;
      };
      const error = thrownBy(define);
      expect(error).toBeInstanceOf(LockKeyError);
      expect(error.message).toMatch(/^Orders\.charge: the key template is .*; write one/);
    }
  });
});

describe('a key that looks like a filled template', () => {
  it.each(['order:${id}', 'order:{0}', 'order:{id}', 'order:#{id}'])(
    '%s is refused when the class is defined, with what to write',
    (key) => {
      for (const name of names) {
        const decorator = FACTORIES[name] as unknown as (...args: unknown[]) => MethodDecorator;
        const define = () => {
          class Orders {
            @(name === 'Limited' ? decorator(key, 5) : decorator(key))
            async charge(_id: string): Promise<void> {}
          }
          return Orders;
        };
        const error = thrownBy(define);
        expect(error).toBeInstanceOf(LockKeyError);
        expect(error.message).toMatch(
          /^Orders\.charge: key template '.*' fills nothing; write '<0>' for the first argument/,
        );
      }
      expect(() => LockInterceptor.for(key)).toThrow(/fills nothing; write '<0>'/);
    },
  );
});

describe('a decorator that is called as a standard one, with a value and a context,', () => {
  it.each(STANDARD)(
    'is refused on a %s with the name of the member and a hint at `experimentalDecorators`',
    (kind, value) => {
      const error = thrownBy(() => (decorators.Locked as unknown as Unchecked)(...standardCall(kind, value)));
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toContain('experimentalDecorators');
      expect(error.message).toContain(kind === 'class' ? 'Orders' : 'charge');
      expect(error.message).not.toMatch(/static|\[object Object\]/);
    },
  );

  it.each(names)('@%s on a method is refused with a hint at `experimentalDecorators`, too', (decorator) => {
    const error = thrownBy(() => (decorators[decorator] as unknown as Unchecked)(...standardCall('method', charge)));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('experimentalDecorators');
  });
});
