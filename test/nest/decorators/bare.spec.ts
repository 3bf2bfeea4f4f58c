import 'reflect-metadata';
import { runInNewContext } from 'node:vm';
import ts from 'typescript';
import { Limited, LockConfigurationError, Locked } from '../../../lib/index.js';
import { type Bare, charge, FACTORIES, STANDARD, standardCall, type Unchecked } from '../support/refused-decorators.js';
import { thrownBy } from '../../support/waiting/rejection.js';

describe('a decorator without parentheses', () => {
  const names = Object.keys(FACTORIES) as (keyof typeof FACTORIES)[];
  const ADVICE: Record<keyof typeof FACTORIES, RegExp> = {
    Locked: /@Locked .* parentheses.*write @Locked\('/,
    WriteLocked: /@WriteLocked .* parentheses.*write @WriteLocked\('/,
    ReadLocked: /@ReadLocked .* parentheses.*write @ReadLocked\('/,
    Limited: /@Limited .* parentheses.*write @Limited\('.*', \d+\)/,
  };
  const symbol = Symbol('charge');

  describe.each(names)('@%s', (name) => {
    const bare = FACTORIES[name] as unknown as Bare;
    const unchecked: Unchecked = bare;
    const BARE: Record<string, () => unknown> = {
      'a method': () => {
        class Orders {
          @bare
          async charge(_id: string): Promise<void> {}
        }
        return Orders;
      },
      'a method with a symbol': () => {
        class Orders {
          @bare
          async [symbol](): Promise<void> {}
        }
        return Orders;
      },
      'a static method': () => {
        class Orders {
          @bare
          static async charge(): Promise<void> {}
        }
        return Orders;
      },
      'a getter': () => {
        class Orders {
          @bare
          get charge(): number {
            return 1;
          }
        }
        return Orders;
      },
      'a field': () => {
        class Orders {
          @bare
          charge = async (): Promise<void> => {};
        }
        return Orders;
      },
      'a parameter': () => {
        class Orders {
          async charge(@bare _id: string): Promise<void> {}
        }
        return Orders;
      },
    };

    it.each(Object.keys(BARE))('is refused on %s when the class is defined, with what to write', (member) => {
      const error = thrownBy(BARE[member]!);
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(/^Orders\.(charge|Symbol\(charge\)): /);
      expect(error.message).toMatch(ADVICE[name]);
    });

    it('is refused on a class, and on a parameter of its constructor', () => {
      const onClass = () => {
        @bare
        class Orders {}
        return Orders;
      };
      const onParameter = () => {
        class Orders {
          constructor(@bare readonly _id: string) {}
        }
        return Orders;
      };
      for (const define of [onClass, onParameter]) {
        const error = thrownBy(define);
        expect(error).toBeInstanceOf(LockConfigurationError);
        expect(error.message).toMatch(/^Orders: /);
        expect(error.message).toMatch(ADVICE[name]);
      }
    });

    it('is refused on a class that was compiled to a function', () => {
      function Orders(): void {}
      Orders.prototype.charge = async (): Promise<void> => {};
      expect(thrownBy(() => unchecked(Orders)).message).toMatch(ADVICE[name]);
    });

    it.each(STANDARD)(
      'is refused as a standard decorator of a %s, with a hint at `experimentalDecorators`',
      (...member) => {
        const error = thrownBy(() => unchecked(...standardCall(...member)));
        expect(error).toBeInstanceOf(LockConfigurationError);
        expect(error.message).toMatch(/^(charge|Orders): /);
        expect(error.message).toMatch(ADVICE[name]);
        expect(error.message).toContain('experimentalDecorators');
      },
    );

    it.each([true, false])('is refused in code that no compiler checked (experimentalDecorators: %s)', (legacy) => {
      const compilerOptions = { experimentalDecorators: legacy, target: ts.ScriptTarget.ES2022 };
      const source = `class Orders { @${name} async charge(id) { return id } }`;
      const { outputText } = ts.transpileModule(source, { compilerOptions });
      const error = thrownBy(() => runInNewContext(outputText, { [name]: bare }));
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(ADVICE[name]);
    });

    it('is refused as a decorator of an older proposal, which gets only a descriptor', () => {
      const descriptor = { kind: 'method', key: 'charge', placement: 'prototype', descriptor: { value: charge } };
      const error = thrownBy(() => unchecked(descriptor));
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(ADVICE[name]);
    });
  });

  it('is not mistaken for a key function', () => {
    for (const key of [
      (id: string) => id,
      function keyOf(id: string) {
        return id;
      },
    ]) {
      expect(() => Locked(key)).not.toThrow();
      expect(() => Limited(key, 2)).not.toThrow();
    }
  });
});
