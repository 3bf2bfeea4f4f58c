import { firstValueFrom, lastValueFrom, toArray } from 'rxjs';
import { type KitCase } from './kit-calls.js';
import { ended } from './kit-told.js';
import { type Work } from './kits.js';
import { type World } from './kits.js';

type Method = Exclude<keyof Work, 'inside' | 'isClosing' | 'beforeApplicationShutdown' | 'values' | 'items'>;

const METHODS: readonly Method[] = [
  'waits', 'skips', 'throws', 'answers', 'reads', 'limited', 'strict', 'skipsAway', 'unlocked', 'fails',
]; // prettier-ignore

const call = (work: Work, method: Method, ...args: unknown[]): Promise<unknown> =>
  (work[method] as (...args: unknown[]) => Promise<unknown>).call(work, ...args);

const PERMIT = { mode: 'read', permits: 2 } as const;

const free = (method: Method): KitCase => [`${method}, which is free`, ({ work }) => call(work, method, '1')];

const busy = (method: Method): KitCase => [
  `${method}, which is busy`,
  async ({ work, occupy }) => {
    const options = method === 'limited' ? PERMIT : {};
    await occupy('order:1', options);
    if (method === 'limited') await occupy('order:1', options);
    return call(work, method, '1');
  },
  { waitMs: 30 },
];

const awayFor = (method: Method): KitCase => [
  `${method}, while Redis is away`,
  async ({ locks, work, cutOff }) => {
    // The first connection may take long on a busy machine.
    await locks.withLock('before', { waitMs: 60_000 }, () => undefined);
    await cutOff();
    return call(work, method, '1');
  },
  { waitMs: 30 },
];

const seventeen = Array.from({ length: 17 }, (_, i) => `k${i}`);

/** What becomes of decorated methods. */
export const DECORATED: readonly KitCase[] = [
  ...METHODS.map(free),
  ...METHODS.map(busy),
  ...(['waits', 'skips', 'skipsAway', 'unlocked', 'fails'] as const).map(awayFor),
  ['waits, while Redis is away, by the default of the module', async ({ work, cutOff }) => {
    await cutOff();
    return work.waits('1');
  }, { onUnavailable: 'skip' }],
  ['moves', ({ work }) => work.moves('1', '2')],
  ['moves, of which one is busy', async ({ work, occupy }) => {
    await occupy('order:2');
    return work.moves('1', '2');
  }],
  ...[undefined, null, NaN, {}, ''].map((id): KitCase => [
    `waits for ${JSON.stringify(id)}`,
    ({ work }) => work.waits(id as never),
  ]),
  ...[['a'], ['a', 'b'], [], [''], seventeen, [7], 'a', undefined].map((keys): KitCase => [
    `chosen with ${JSON.stringify(keys)?.slice(0, 20)}`,
    ({ work }) => work.chosen(keys as never),
  ]),
  ['strict inside itself', async ({ work }) => {
    work.inside = () => ended(call(work, 'strict', '1'));
    return work.waits('1');
  }],
  ['waits inside reads', async ({ work }) => {
    let isInside = false;
    work.inside = () => (isInside ? 'inside' : ((isInside = true), ended(work.waits('1'))));
    return work.reads('1');
  }],
  ['waits whose work throws', async ({ work }) => {
    work.inside = () => Promise.reject(new Error('work'));
    return work.waits('1');
  }],
]; // prettier-ignore

const USES: Record<string, (world: World) => Promise<unknown>> = {
  values: ({ work }) => lastValueFrom(work.values('1').pipe(toArray())),
  async 'the first of the values'({ work, locks }) {
    // Who unsubscribes does not wait for the release.
    const released = new Promise<unknown>((resolve) => void locks.events.on('released', resolve));
    const first = await firstValueFrom(work.values('1'));
    await released;
    return first;
  },
  async items({ work }) {
    const items: string[] = [];
    for await (const item of work.items('1')) items.push(item);
    return items;
  },
  async 'the first of the items'({ work }) {
    for await (const item of work.items('1')) return item;
    return 'none';
  },
};

/** What becomes of streams. */
export const STREAMS: readonly KitCase[] = Object.entries(USES).flatMap(([name, use]): KitCase[] => [
  [`${name}, free`, use],
  [`${name}, busy`, async (world) => {
    await world.occupy('order:1');
    return use(world);
  }],
  [`${name}, while Redis is away`, async (world) => {
    await world.cutOff();
    return use(world);
  }],
  [`${name}, after the end of the app`, async (world) => {
    await world.app.close();
    return use(world);
  }],
]); // prettier-ignore

/** What becomes of jobs, once each: on a fake they run at every call. */
export const JOBS: readonly KitCase[] = [
  ['slot', ({ work }) => work.slot()],
  ['slot that is busy', async ({ work, occupy }) => {
    await occupy('slot');
    return [await ended(work.slot()), await ended(work.slotThrows())];
  }],
  ['slot that waits for the run of another', async ({ work, occupy }) => {
    await occupy('slot');
    return work.slotAgain();
  }],
  ['slot while Redis is away', async ({ work, cutOff }) => {
    await cutOff();
    return work.slot();
  }],
  ['slot inside itself', ({ work }) => {
    work.inside = () => ended(work.slot());
    return work.slot();
  }],
  ...[['slot'], ['slot', 'b'], ['slot', 'slot'], seventeen, []].map((keys): KitCase => [
    `slot with ${JSON.stringify(keys).slice(0, 20)}`,
    ({ work }) => work.slotChosen(keys),
  ]),
  ['the last run, while it runs and after it', async ({ locks, work }) => {
    work.inside = async () => ({ ...(await locks.lastRun('slot')) });
    return [await work.slot(), { ...(await locks.lastRun('slot', 'Work.slot')) }, await locks.lastRun('slot', 'Work.other')];
  }],
  ['the last run, which failed', async ({ locks, work }) => {
    work.inside = () => Promise.reject(new Error('work'));
    return [await ended(work.slot()), { ...(await locks.lastRun('slot')) }];
  }],
]; // prettier-ignore
