import { LockKeyError } from '../../core/lock.errors.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';
import { type Scene } from './kit/scene.js';

const refuses = (check: () => void): unknown => {
  try {
    check();
    return undefined;
  } catch (error) {
    return error;
  }
};

const permutations = <T>(values: readonly T[]): T[][] =>
  values.length < 2
    ? [[...values]]
    : values.flatMap((value) => permutations(values.filter((one) => one !== value)).map((rest) => [value, ...rest]));

/** Keys in no particular order. Some differ only in a way that a comparison may overlook. */
const keysOf = ({ prefix }: Scene): string[] => ['b', 'B', 'é', 'a'].map((name) => prefix + name);

/** Which texts are keys, and the order in which several are acquired. */
export const KEYS: readonly PortCase[] = [
  {
    name: 'keys that are empty, ill-formed or too long throw a LockKeyError',
    async run(scene) {
      const { store } = await scene.client();
      const bad = ['', '\uD800', `${scene.key}\uDC00x`, scene.prefix + 'k'.repeat(10_000), undefined, 7];
      for (const key of bad) {
        const error = refuses(() => store.checkKey(key as string));
        const named = `${typeof key === 'string' ? JSON.stringify(key.slice(-9)) : String(key)} to throw LockKeyError`;
        promised(error instanceof LockKeyError, named, error ?? 'nothing');
      }
    },
  },
  {
    name: 'any other text is a key',
    async run(scene) {
      const { store } = await scene.client();
      for (const name of ['', ' ', 'a b', '{a}', '%', 'né 🔒', 'a\u0000b', '*', 'k'.repeat(900)]) {
        const error = refuses(() => store.checkKey(scene.prefix + name));
        promised(error === undefined, `${JSON.stringify(name.slice(0, 9))} to be accepted`, error);
      }
    },
  },
  {
    name: 'groups() orders keys the same way for every client',
    async run(scene) {
      const [a, b] = await scene.clients();
      const keys = keysOf(scene);
      const order = a.store.groups(keys);
      same(order.flat().toSorted(), keys.toSorted(), 'the keys in the groups');
      for (const permutation of permutations(keys)) same(b.store.groups(permutation), order, 'the groups');
    },
  },
  {
    name: 'two keys keep their order among any other keys',
    async run(scene) {
      const { store } = await scene.client();
      const keys = keysOf(scene);
      const all = store.groups(keys).flat();
      for (const [first, second] of permutations(keys)) {
        const pair = [first!, second!];
        same(
          store.groups(pair).flat(),
          all.filter((key) => pair.includes(key)),
          'the order of two of them',
        );
      }
    },
  },
];
