import { type LockState } from '../../core/store/lock-state.js';
import { type Client } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

async function listed({ store }: Client, prefix: string, limit = 100): Promise<LockState[]> {
  const states: LockState[] = [];
  for await (const state of store.list({ prefix, limit })) states.push(state);
  return states;
}

const keysOf = (states: readonly LockState[]): string[] => states.map(({ key }) => key).toSorted();

/** What a store reports of many locks. */
export const LIST: readonly PortCase[] = [
  {
    name: 'list() yields each lock whose key begins with the prefix once, and no free ones',
    async run(scene) {
      const [a, b] = await scene.clients();
      const keys = ['p-1', 'p-2', 'p-3', 'q-1'].map((name) => scene.prefix + name);
      for (const key of keys) await a.granted(`the lock ${key}`, { keys: [key] });
      const freed = await a.granted('a fifth lock', { keys: [`${scene.prefix}p-4`] });
      await a.release(freed);
      const states = await listed(b, `${scene.prefix}p-`);
      same(keysOf(states), keys.slice(0, 3), 'the keys');
      promised(
        states.every(({ mode, holders }) => mode === 'write' && holders.length === 1),
        'the holders',
        states,
      );
      same(keysOf(await listed(b, scene.prefix)), keys, 'the keys of a shorter prefix');
    },
  },
  {
    name: 'list() yields at most `limit` locks',
    async run(scene) {
      const a = await scene.client();
      for (const name of ['a', 'b', 'c']) await a.granted(`the lock ${name}`, { keys: [scene.prefix + name] });
      same((await listed(a, scene.prefix, 2)).length, 2, 'the number of locks');
      same((await listed(a, scene.prefix, 3)).length, 3, 'the number of locks');
    },
  },
  {
    name: 'list() takes its prefix literally, and yields keys as they were given',
    async run(scene) {
      const a = await scene.client();
      const names = ['*', '?', '[ab]', '{x}', '%7B', 'a b', '\\', 'é'];
      for (const name of names) await a.granted(`the lock ${name}`, { keys: [`${scene.prefix}${name}1`] });
      for (const name of names) {
        same(keysOf(await listed(a, scene.prefix + name)), [`${scene.prefix}${name}1`], `the keys with ${name}`);
      }
    },
  },
];
