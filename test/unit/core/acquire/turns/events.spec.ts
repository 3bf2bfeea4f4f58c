import { AsyncLocalStorage } from 'node:async_hooks';
import { type LockEventMap, type LockEventName } from '../../../../../lib/core/lock.events.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy } from '../../../../support/core/fake-store.js';
import { type Call, startTurns } from './start-turns.js';

const NAMES: LockEventName[] = ['acquired', 'acquireFailed', 'waiting', 'released', 'timedOut', 'lost'];

/** A locker, and what its events tell. */
function startHeard() {
  const parts = startTurns();
  const heard: [LockEventName, unknown][] = [];
  for (const name of NAMES) parts.locker.events.on(name, (event) => void heard.push([name, event]));
  const named = <Name extends LockEventName>(name: Name): LockEventMap[Name][] =>
    heard.filter(([other]) => other === name).map(([, event]) => event as LockEventMap[Name]);
  return { ...parts, heard, named };
}

describe('the events of a lock that is handed on', () => {
  it('tell of each hold, in order, and which of them was local', async () => {
    const { clock, calls, heard, named } = startHeard();
    const [first, second] = calls(2);
    await settled();
    clock.jump(3);
    await first!.value!.release();
    await settled();
    clock.jump(1);
    await second!.value!.release();
    const { attempt } = first!.value!;
    const of = { key: 'k', keys: ['k'], mode: 'write', where: '', template: undefined };
    expect(heard).toEqual([
      ['waiting', { ...of, ahead: 1, holder: undefined }],
      ['acquired', { ...of, attempt, fencingToken: 1_000, waitedMs: 0, waited: false, local: false, serverTimeMs: 0 }],
      ['released', { ...of, attempt, fencingToken: 1_000, heldMs: 3, holds: undefined }],
      ['acquired', { ...of, attempt, fencingToken: 1_001, waitedMs: 3, waited: true, local: true, serverTimeMs: 0 }],
      ['released', { ...of, attempt, fencingToken: 1_001, heldMs: 1, holds: 0 }],
    ]);
    expect(named('lost')).toEqual([]);
  });

  it('tell when Redis granted it, of each of them', async () => {
    const { store, calls, named } = startHeard();
    const answer = store.onAcquire!;
    store.onAcquire = (request) => ({ ...answer(request), serverTimeMs: 77 }) as never;
    const [first, second] = calls(3);
    await settled();
    await first!.value!.release();
    await settled();
    await second!.value!.release();
    expect(named('acquired').map(({ serverTimeMs }) => serverTimeMs)).toEqual([77, 77, 77]);
  });

  it('tell who holds it, and how many wait before a call', async () => {
    const { hold, calls, named } = startHeard();
    await hold();
    calls(3);
    expect(named('waiting').map(({ ahead, holder }) => [ahead, holder])).toEqual([
      [0, 'host:1'],
      [1, 'host:1'],
      [2, 'host:1'],
    ]);
  });
});

describe('a call that waits behind others', () => {
  it('has one `waiting` event, also when it waits in the store later', async () => {
    const { clock, store, hold, call, push, named } = startHeard();
    await hold();
    const second = call();
    store.onAcquire = () => busy({ ahead: 3 });
    await clock.advance(50);
    expect([store.acquires.length, named('waiting').length]).toEqual([2, 1]);
    push(1, 9_000, 5);
    await settled();
    expect(second.value!.held).toBe(true);
    expect(named('acquired').at(-1)).toMatchObject({ waited: true, local: false, waitedMs: 50 });
  });

  it('has one `acquireFailed` event when it is aborted, times out, or goes on for another one in vain', async () => {
    const { clock, store, call, named } = startHeard();
    store.onAcquire = () => busy();
    const [abort, reason] = [new AbortController(), new Error('left')];
    call({ waitMs: 20 });
    call({ waitMs: 30 });
    call({ signal: abort.signal });
    call({ waitMs: 10 });
    await settled();
    abort.abort(reason);
    await clock.advance(40);
    expect(named('acquireFailed').map((event) => [event.reason, event.waited, event.waitedMs])).toEqual([
      ['aborted', true, 0],
      ['timeout', true, 10],
      ['timeout', true, 20],
      ['timeout', true, 30],
    ]);
    expect(named('timedOut').map(({ waitedMs, holder }) => [waitedMs, holder])).toEqual([
      [10, 'host:1'],
      [20, 'host:1'],
      [30, 'host:1'],
    ]);
  });
});

describe('the async context of a call', () => {
  const caller = new AsyncLocalStorage<string>();

  it('is that of its own events and of what it awaits, whoever hands it the lock', async () => {
    const { locker, call, finish } = startTurns();
    const seen: unknown[] = [];
    const note = (name: LockEventName) => () => void seen.push([name, caller.getStore()]);
    for (const name of ['waiting', 'acquired', 'released'] as const) locker.events.on(name, note(name));
    const work = async (name: string, begun: Call): Promise<void> => {
      while (!begun.value) await settled();
      seen.push(['work', caller.getStore()]);
      expect(caller.getStore()).toBe(name);
      await begun.value.release();
    };
    await Promise.all(['a', 'b', 'c'].map((name) => caller.run(name, () => work(name, call()))));
    expect(seen).toEqual([
      ['waiting', 'b'],
      ['waiting', 'c'],
      ['acquired', 'a'],
      ['work', 'a'],
      ['released', 'a'],
      ['acquired', 'b'],
      ['work', 'b'],
      ['released', 'b'],
      ['acquired', 'c'],
      ['work', 'c'],
      ['released', 'c'],
    ]);
    await finish();
  });

  it('is that of its failure, whoever causes it', async () => {
    const { locker, call, hold, store } = startTurns();
    const lock = await hold();
    const seen: unknown[] = [];
    locker.events.on('acquireFailed', () => void seen.push(caller.getStore()));
    locker.events.on('acquired', () => void seen.push(caller.getStore()));
    const abort = new AbortController();
    caller.run('b', () => call({ signal: abort.signal }));
    caller.run('c', () => call({ signal: abort.signal }));
    caller.run('d', () => call());
    store.onAcquire = () => busy();
    caller.run('other', () => abort.abort());
    await caller.run('a', () => lock.release());
    await settled();
    expect(seen).toEqual(['b', 'c', 'd']);
  });

  it('is kept when the call asks the store later, in the context of another one', async () => {
    const { clock, locker, call, hold } = startTurns();
    const lock = await hold();
    const seen: unknown[] = [];
    locker.events.on('acquired', () => void seen.push(caller.getStore()));
    caller.run('b', () => call());
    clock.jump(10);
    await caller.run('a', () => lock.release());
    await settled();
    expect(seen).toEqual(['b']);
  });
});
