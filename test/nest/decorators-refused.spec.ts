import 'reflect-metadata';
import { Limited, LockConfigurationError, Locked, ReadLocked, WriteLocked } from '../../lib/index.js';

/** What the compiler would refuse, as it is called for code that was not checked. */
type Unchecked = (...args: unknown[]) => void;

const decorators = {
  Locked: Locked('k'),
  WriteLocked: WriteLocked('k'),
  ReadLocked: ReadLocked('k'),
  Limited: Limited('k', 2),
};
const names = Object.keys(decorators) as (keyof typeof decorators)[];
const locked = decorators.Locked as unknown as MethodDecorator & PropertyDecorator & ClassDecorator;

function refusalOf(define: () => unknown): Error {
  try {
    define();
  } catch (error) {
    return error as Error;
  }
  throw new Error('Nothing was refused.');
}

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
      const error = refusalOf(DEFINITIONS[member]!);
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
    expect(refusalOf(() => apply(Orders, 'charge', descriptor))).toBeInstanceOf(LockConfigurationError);
  });

  it('is a method whose value is no function', () => {
    class Orders {}
    const apply = decorators.Locked as unknown as Unchecked;
    const error = refusalOf(() => apply(Orders.prototype, 'charge', { value: 5, writable: true }));
    expect(error.message).toMatch(/^Orders\.charge: expected a method to lock/);
  });

  it('is a class itself, and the text names it and does not speak of a method that is not there', () => {
    const define = () => {
      @locked
      class Orders {
        async charge(): Promise<void> {}
      }
      return Orders;
    };
    const error = refusalOf(define);
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toMatch(/^Orders: .*put the decorator on a method/);
    expect(error.message).not.toMatch(/undefined|static method/);
  });
});

describe('a decorator that is called as the standard ones are, with a value and a context,', () => {
  const charge = async function charge(): Promise<void> {};
  class Orders {}

  it.each([
    ['method', charge],
    ['getter', () => 1],
    ['setter', () => undefined],
    ['field', undefined],
    ['accessor', { get: () => 1, set: () => undefined }],
    ['class', Orders],
  ])('on a %s is refused with the name of the member, and told of `experimentalDecorators`', (kind, value) => {
    const name = kind === 'class' ? 'Orders' : 'charge';
    const context = { kind, name, static: false, private: false, metadata: {}, addInitializer: () => undefined };
    const error = refusalOf(() => (decorators.Locked as unknown as Unchecked)(value, context));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('experimentalDecorators');
    expect(error.message).toContain(name);
    expect(error.message).not.toMatch(/static|\[object Object\]/);
  });

  it.each(names)('@%s on a method is told of `experimentalDecorators`, too', (decorator) => {
    const context = { kind: 'method', name: 'charge', static: false, private: false };
    const error = refusalOf(() => (decorators[decorator] as unknown as Unchecked)(charge, context));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('experimentalDecorators');
  });
});
