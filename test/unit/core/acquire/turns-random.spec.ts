import * as fc from 'fast-check';
import { Locker } from '../../../../lib/core/acquire/locker.js';
import { type StoreHold } from '../../../../lib/core/hold/store-hold.js';
import { systemRuntime } from '../../../../lib/core/runtime.js';
import { MemoryLockServer } from '../../../../lib/memory/memory-lock-server.js';
import { MemoryLockStore } from '../../../../lib/memory/memory-lock-store.js';
import { lockOptions } from '../../../support/core/core-parts.js';
import { FakeClock, settled } from '../../../support/core/fake-clock.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';
import { type Call, NOTHING } from './start-calls.js';

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 40);
const LEASE_MS = 600;

interface Begun extends Call {
  readonly nr: number;
  /** The process of the call. */
  readonly at: number;
  readonly abort: AbortController;
}

type Step = readonly [
  what: 'begin' | 'abort' | 'release' | 'extend' | 'downgrade' | 'revoke' | 'miss' | 'pass' | 'block' | 'outage',
  which: number,
  ms: number,
];

const isOpen = ({ value, error }: Call): boolean => value === undefined && error === undefined;

/** Two processes whose calls want one key of a store in memory, on a clock that only the steps move. */
class Scene {
  readonly clock = new FakeClock();
  readonly server = new MemoryLockServer({ clock: this.clock });
  readonly stores = [new MemoryLockStore(this.server), new MemoryLockStore(this.server)];
  readonly lockers = this.stores.map(
    (store) => new Locker(systemRuntime(this.clock), store, new FakeReporter(), 'p:1'),
  );
  readonly calls: Begun[] = [];
  /** The token of each grant, in order. */
  readonly tokens: number[] = [];
  /** The calls of each process in the order of their grants. */
  readonly order: number[][] = [[], []];
  locals = 0;
  /** How many calls have ended, with the lock or without it. */
  ended = 0;

  constructor() {
    for (const { events } of this.lockers) {
      events.on('acquired', ({ fencingToken, local }) => {
        this.tokens.push(fencingToken);
        this.ended += 1;
        if (local) this.locals += 1;
      });
      events.on('acquireFailed', () => void (this.ended += 1));
    }
  }

  begin(which: number, waitMs: number): void {
    const at = which % 2;
    // Some calls share a signal.
    const abort = which % 3 === 0 && this.calls.length > 0 ? this.calls.at(-1)!.abort : new AbortController();
    if (abort.signal.aborted) return;
    const locker = this.lockers[at]!;
    const mode = which % 7 === 0 ? 'read' : 'write';
    const options = lockOptions({
      mode,
      leaseMs: LEASE_MS,
      waitMs: [3, 40, 2_000, Infinity][waitMs % 4]!,
      signal: abort.signal,
    });
    const promise = locker.acquire(locker.request(['k'], options)) as Promise<StoreHold>;
    const nr = this.calls.length;
    this.calls.push(Object.assign(outcomeOf(promise), { nr, at, abort }));
    promise.then(
      () => mode === 'write' && this.order[at]!.push(nr),
      () => undefined,
    );
  }

  get held(): Begun[] {
    return this.calls.filter(({ value }) => value?.held);
  }

  async take([what, which, ms]: Step): Promise<void> {
    const holder = this.held[0]?.value;
    if (what === 'begin') this.begin(which, ms);
    else if (what === 'abort') this.calls[which % Math.max(this.calls.length, 1)]?.abort.abort();
    else if (what === 'release') void holder?.release();
    else if (what === 'extend') void holder?.extend(ms * 20 + 1).catch(() => undefined);
    else if (what === 'downgrade') void holder?.downgrade().catch(() => undefined);
    else if (what === 'revoke') await this.stores[0]!.forceRelease('k').catch(() => undefined);
    else if (what === 'miss') this.lockers[which % 2]!.onMessagesMissed();
    else if (what === 'pass') await this.clock.advance(ms);
    else if (what === 'block') this.clock.jump(ms * 10);
    else if (which % 2 === 0) this.server.stop();
    else this.server.start();
    // Sometimes the next step comes in the same turn.
    if (which % 5 === 0) return;
    await settled();
    this.check();
  }

  check(): void {
    const { held } = this;
    if (held.some(({ value }) => value!.mode === 'write')) expect(held.length).toBe(1);
    expect(this.calls.filter((call) => call.abort.signal.aborted && isOpen(call))).toEqual([]);
    expect(this.ended).toBe(this.calls.filter((call) => !isOpen(call)).length);
    for (const order of this.order) expect(order).toEqual(order.toSorted((a, b) => a - b));
    expect(this.tokens).toEqual(this.tokens.toSorted((a, b) => a - b));
    expect(new Set(this.tokens).size).toBe(this.tokens.length);
  }

  /** Serves all who wait. */
  async end(): Promise<void> {
    this.server.start();
    for (let round = 0; round < 200 && (this.calls.some(isOpen) || this.held.length > 0); round += 1) {
      await this.clock.advance(this.held.length > 0 ? 1 : 50);
      for (const { value } of this.held) await Promise.all([value!.release(), this.clock.advance(0)]);
      this.check();
    }
    expect(this.calls.filter(isOpen)).toEqual([]);
    for (const { value } of this.calls) void value?.release();
    await this.clock.advance(10_000);
    this.check();
    expect(this.lockers.map(({ live }) => live)).toEqual([NOTHING, NOTHING]);
    expect(this.clock.keptAlive).toBe(0);
    expect(await this.stores[0]!.inspect('k')).toMatchObject({ mode: 'free', waiters: 0 });
  }
}

const step = (...weighted: [Step[0], number][]): fc.Arbitrary<Step> =>
  fc.tuple(
    fc.oneof(...weighted.map(([what, weight]) => ({ arbitrary: fc.constant(what), weight }))),
    fc.nat(29),
    fc.nat(20),
  );

describe('calls of two processes, in steps at random', () => {
  it('hold the lock one at a time, in order, with tokens that rise, and leave nothing behind', async () => {
    const steps = fc.array(
      step(
        ['begin', 12],
        ['release', 10],
        ['pass', 4],
        ['abort', 3],
        ['extend', 1],
        ['downgrade', 2],
        ['revoke', 1],
        ['miss', 1],
        ['block', 1],
        ['outage', 1],
      ),
      { minLength: 20, maxLength: 60 },
    );
    let locals = 0;
    await fc.assert(
      fc.asyncProperty(steps, async (taken) => {
        const scene = new Scene();
        for (const one of taken) await scene.take(one);
        await scene.end();
        locals += scene.locals;
      }),
      { numRuns: RUNS, seed: Number(process.env['FUZZ_SEED'] ?? 1) },
    );
    expect(locals).toBeGreaterThan(0);
    // Nothing in it waits, but a busy machine needs a while for so many steps.
  }, 120_000);
});
