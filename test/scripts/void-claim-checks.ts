import { type Checks, type DrivenLock, LEASE_MS, START_MS, attempt } from './driven-lock.js';

const [A, B, C] = [attempt('a', 1), attempt('b', 2), attempt('c', 3)];
const WIDTH_MS = 60_000;
const CLAIM = { rememberMs: 3_600_000, fireAgeMs: 0, rerun: 0 };
const at = (fireMs: number) => ({ ...CLAIM, fireKind: 'at', fireMs });

const VOID = { runOutcome: 'void' };
const DONE = { runOutcome: 'done' };

/** Claims, has to be granted, and gives the fire. */
async function claim(lock: DrivenLock, who: string, fire: object): Promise<number> {
  const [outcome, , , , , , fireMs] = await lock.acquire(who, { ...fire });
  expect(outcome).toBe('granted');
  return Number(fireMs);
}

async function expectClaimed(lock: DrivenLock, who: string, fire: object): Promise<void> {
  expect(await lock.acquire(who, { ...fire })).toEqual(['refused', who, `${lock.now}`, 'claimed']);
}

const ringOf = async (lock: DrivenLock) => (await lock.hash())['fires'];
const runOf = async (lock: DrivenLock) => {
  const hash = await lock.hash();
  return [hash['run'], hash['run:by']];
};

/** Runs that came to their end, one after the other. */
async function runAll(lock: DrivenLock, fires: readonly number[]): Promise<void> {
  for (const [i, fireMs] of fires.entries()) {
    await claim(lock, attempt('r', 100 + i), at(fireMs));
    await lock.release(attempt('r', 100 + i), DONE);
  }
}

const ofKind = (kind: string, fireMs: number, expected: number): Checks => ({
  [`lets a fire of kind ${kind} be claimed again at once`]: async (lock) => {
    const fire = { ...CLAIM, fireKind: kind, fireMs };
    expect(await claim(lock, A, fire)).toBe(expected);
    await expectClaimed(lock, B, fire);
    expect(await lock.release(A, VOID)).toBe('released');
    expect(await claim(lock, B, fire)).toBe(expected);
    await lock.release(B, DONE);
    await expectClaimed(lock, C, fire);
  },

  [`lets a fire of kind ${kind} be claimed again after two voids`]: async (lock) => {
    const fire = { ...CLAIM, fireKind: kind, fireMs };
    for (const who of [A, B]) {
      await claim(lock, who, fire);
      await lock.release(who, VOID);
    }
    expect(await claim(lock, C, fire)).toBe(expected);
  },
});

const OF_THE_RING: Checks = Object.fromEntries(
  [
    { where: 'between others', before: [1_000, 3_000], fire: 2_000, left: ';1000;3000;' },
    { where: 'before others', before: [2_000, 3_000], fire: 1_000, left: ';2000;3000;' },
    { where: 'after others', before: [1_000, 2_000], fire: 3_000, left: ';1000;2000;' },
    {
      where: 'that begins or ends as others do',
      before: [100, 11_000, 10_000],
      fire: 1_000,
      left: ';100;10000;11000;',
    },
    { where: 'that is the only one', before: [], fire: 1_000, left: ';' },
  ].map(({ where, before, fire, left }) => [
    `takes out of the ring a fire ${where}, and no other`,
    async (lock: DrivenLock) => {
      await runAll(lock, before);
      await claim(lock, A, at(fire));
      await lock.release(A, VOID);
      expect(await ringOf(lock)).toBe(left);
      for (const fireMs of before) await expectClaimed(lock, B, at(fireMs));
      expect(await claim(lock, B, at(fire))).toBe(fire);
    },
  ]),
);

const OF_RUNS: Checks = {
  'forgets the run, and who ran it': async (lock) => {
    await claim(lock, A, at(1_000));
    expect(await runOf(lock)).toEqual([`1000 ${A} ${lock.now} 0 -`, 'host-1:4711']);
    await lock.release(A, VOID);
    expect(Object.keys(await lock.hash()).sort()).toEqual(['fires', 'released', 'token']);
  },

  'of an attempt whose owner has claimed another fire since changes no run': async (lock) => {
    await claim(lock, A, { ...at(1_000), owner: 'ann' });
    await claim(lock, B, { ...at(2_000), owner: 'ann' });
    const before = await runOf(lock);
    expect(await lock.release(A, VOID)).toBe('released');
    expect([await ringOf(lock), await runOf(lock)]).toEqual([';1000;2000;', before]);
    await lock.release(B, VOID);
    expect([await ringOf(lock), await runOf(lock)]).toEqual([';1000;', [undefined, undefined]]);
  },

  'of a hold that is for no fire changes no run': async (lock) => {
    await runAll(lock, [1_000]);
    const before = [await ringOf(lock), await runOf(lock)];
    await lock.take(A);
    expect(await lock.release(A, VOID)).toBe('released');
    expect([await ringOf(lock), await runOf(lock)]).toEqual(before);
  },

  'of a hold where no fire was ever claimed writes none': async (lock) => {
    await lock.take(A);
    await lock.release(A, VOID);
    expect(Object.keys(await lock.hash()).sort()).toEqual(['released', 'token']);
  },

  'of who waits, or was never heard of, changes no run': async (lock) => {
    await claim(lock, A, at(1_000));
    await lock.acquire(B, { ...at(2_000), waiterLeaseMs: 10_000 });
    const before = [await ringOf(lock), await runOf(lock)];
    expect(await lock.release(B, VOID)).toBe('cancelled');
    expect(await lock.release(C, VOID)).toBe('unknown');
    expect([await ringOf(lock), await runOf(lock)]).toEqual(before);
  },

  'may be sent twice, also when the fire was claimed again in between': async (lock) => {
    await claim(lock, A, at(1_000));
    expect(await lock.release(A, VOID)).toBe('released');
    await lock.expectUntouched(async () => expect(await lock.release(A, VOID)).toBe('again'));
    await claim(lock, B, at(1_000));
    await lock.expectUntouched(async () => expect(await lock.release(A, VOID)).toBe('again'));
    await expectClaimed(lock, C, at(1_000));
  },

  'refuses the claim of its attempt that comes late, which claims nothing': async (lock) => {
    expect(await lock.release(A, VOID)).toBe('unknown');
    expect((await lock.acquire(A, at(1_000)))[3]).toBe('released');
    expect(await claim(lock, B, at(1_000))).toBe(1_000);
  },

  'works when the server is full': async (lock) => {
    await claim(lock, A, at(1_000));
    await lock.fillServer();
    expect(await lock.release(A, VOID)).toBe('released');
    expect([await ringOf(lock), await runOf(lock)]).toEqual([';', [undefined, undefined]]);
  },

  'does not shorten for how long the fires are remembered': async (lock) => {
    await claim(lock, A, { ...at(1_000), rememberMs: 7_200_000 });
    await lock.release(A, VOID);
    expect(await lock.redis.pttl('lock:order%3A42')).toBeGreaterThan(7_195_000);
  },
};

/** Names of which a Lua pattern would take the first for the second. */
const ALIKE = [
  ['c.%S+.00000001', 'c.xyz.00000001'],
  ['c.[ab].00000001', 'c.a.00000001'],
  ['c-.00000001', 'cc.00000001'],
  ['%d+', '11'],
] as const;

const OF_PATTERNS: Checks = Object.fromEntries(
  ALIKE.flatMap(([who, alike]) => [[who, alike] as const, [alike, who] as const]).map(([who, alike]) => [
    `does not take ${alike} for ${who}`,
    async (lock: DrivenLock) => {
      await claim(lock, who, { ...at(1_000), owner: 'ann' });
      await lock.take(alike, { owner: 'ann' });
      expect(await lock.release(alike, VOID)).toBe('released');
      expect(await ringOf(lock)).toBe(';1000;');
      await lock.release(who, VOID);
      expect(await ringOf(lock)).toBe(';');
    },
  ]),
);

/** What the other outcomes do, as before. */
const OF_OTHER_OUTCOMES: Checks = Object.fromEntries(
  ['done', 'failed', '-'].map((runOutcome) => [
    `a run that ends with ${runOutcome} stays, and its fire stays claimed`,
    async (lock: DrivenLock) => {
      await claim(lock, A, at(1_000));
      lock.now += 10;
      expect(await lock.release(A, { runOutcome })).toBe('released');
      const ended = runOutcome === '-' ? '0 -' : `${lock.now} ${runOutcome}`;
      expect(await runOf(lock)).toEqual([`1000 ${A} ${START_MS} ${ended}`, 'host-1:4711']);
      expect(await ringOf(lock)).toBe(';1000;');
      lock.now += LEASE_MS;
      await expectClaimed(lock, B, at(1_000));
    },
  ]),
);

/** What a release promises whose claim is void; each runs on a fresh lock. */
export const VOID_CLAIM_CHECKS: Checks = {
  ...ofKind('at', 1_000, 1_000),
  ...ofKind('slot', WIDTH_MS, START_MS),
  ...ofKind('gap', WIDTH_MS, START_MS),
  ...OF_THE_RING,
  ...OF_RUNS,
  ...OF_PATTERNS,
  ...OF_OTHER_OUTCOMES,
};
