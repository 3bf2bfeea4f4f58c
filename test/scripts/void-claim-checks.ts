import { type Checks, type DrivenLock, LEASE_MS, START_MS, attempt } from './driven-lock.js';

const [A, B, C, D] = [attempt('a', 1), attempt('b', 2), attempt('c', 3), attempt('d', 4)];
const WIDTH_MS = 60_000;
const JOB = 'Reports.noon';
const CLAIM = { job: JOB, rememberMs: 3_600_000, fireAgeMs: 0, rerun: 0 };
const at = (fireMs: number) => ({ ...CLAIM, fireKind: 'at', fireMs });

const VOID = { job: JOB, runOutcome: 'void' };
const DONE = { job: JOB, runOutcome: 'done' };

/** Claims, has to be granted, and gives the fire. */
async function claim(lock: DrivenLock, who: string, fire: object): Promise<number> {
  const [outcome, , , , , , fireMs] = await lock.acquire(who, { ...fire });
  expect(outcome).toBe('granted');
  return Number(fireMs);
}

/** `by`: the attempt whose run of it has no outcome yet; empty: it was run. */
async function expectClaimed(lock: DrivenLock, who: string, fire: object, by = ''): Promise<void> {
  expect(await lock.acquire(who, { ...fire })).toEqual(['refused', who, `${lock.now}`, 'claimed', by]);
}

const ringOf = async (lock: DrivenLock) => (await lock.hash())[`fires:${JOB}`];
const runOf = async (lock: DrivenLock) => {
  const hash = await lock.hash();
  return [hash[`run:${JOB}`], hash[`run:by:${JOB}`]];
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
    await expectClaimed(lock, B, fire, A);
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
  'forgets the run and its runner': async (lock) => {
    await claim(lock, A, at(1_000));
    expect(await runOf(lock)).toEqual([`1000 ${A} ${lock.now} 0 -`, 'host-1:4711']);
    await lock.release(A, VOID);
    expect(Object.keys(await lock.hash()).sort()).toEqual([`fires:${JOB}`, 'jobs', 'released', 'token', 'v']);
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

  'of a waiter or an unknown attempt changes no run': async (lock) => {
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
    await expectClaimed(lock, C, at(1_000), B);
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

  'does not shorten the time for which fires are remembered': async (lock) => {
    await claim(lock, A, { ...at(1_000), rememberMs: 7_200_000 });
    await lock.release(A, VOID);
    expect(await lock.redis.pttl('lock:order%3A42')).toBeGreaterThan(7_195_000);
  },
};

const FIRES = Array.from({ length: 17 }, (_, i) => (i + 1) * 1_000);

/** The 16 latest are remembered, and one less after a void: an earlier fire counts as granted even then. */
const OF_EVICTED: Checks = {
  'lets no fire run twice that the voided one pushed out of the ring': async (lock) => {
    await runAll(lock, FIRES.slice(0, 16));
    await claim(lock, A, at(17_000));
    expect(await lock.release(A, VOID)).toBe('released');
    expect(await ringOf(lock)).toBe(`;${FIRES.slice(1, 16).join(';')};`);
    await expectClaimed(lock, B, at(1_000));
    await expectClaimed(lock, B, at(1_500));
    expect(await claim(lock, B, at(17_000))).toBe(17_000);
  },

  'lets no fire run twice after several voids': async (lock) => {
    await runAll(lock, FIRES.slice(0, 16));
    for (const [who, fireMs] of [[A, 17_000], [B, 18_000], [D, 17_500]] as const) {
      await claim(lock, who, at(fireMs));
      await lock.release(who, VOID);
    } // prettier-ignore
    for (const fireMs of FIRES.slice(0, 16)) await expectClaimed(lock, C, at(fireMs));
    expect(await claim(lock, C, at(17_000))).toBe(17_000);
  },

  'treats a fire that is earlier than 15 others as granted': async (lock) => {
    await runAll(lock, FIRES.slice(1, 16));
    await expectClaimed(lock, A, at(1_000));
  },

  'grants a fire between those that are remembered': async (lock) => {
    await runAll(lock, FIRES.slice(0, 16));
    expect(await claim(lock, A, at(8_500))).toBe(8_500);
  },

  'grants a fire that is earlier than 14 others': async (lock) => {
    await runAll(lock, FIRES.slice(1, 15));
    expect(await claim(lock, A, at(1_000))).toBe(1_000);
  },
};

/** A hold that is gone by then. */
const OF_LATE_ONES: Checks = {
  'whose lease is over gives the fire back, and may be sent twice': async (lock) => {
    await runAll(lock, [1_000]);
    await claim(lock, A, at(2_000));
    lock.now += LEASE_MS;
    expect(await lock.release(A, VOID)).toBe('expired');
    expect([await ringOf(lock), await runOf(lock)]).toEqual([';1000;', [undefined, undefined]]);
    await lock.expectUntouched(async () => expect(await lock.release(A, VOID)).toBe('again'));
    expect(await claim(lock, B, at(2_000))).toBe(2_000);
  },

  'of a forgotten attempt gives the fire back': async (lock) => {
    await claim(lock, A, at(1_000));
    lock.now += LEASE_MS;
    await expectClaimed(lock, B, at(1_000), A);
    expect(await lock.holdOf(A)).toBeNull();
    expect(await lock.release(A, VOID)).toBe('unknown');
    expect([await ringOf(lock), await runOf(lock)]).toEqual([';', [undefined, undefined]]);
    expect(await claim(lock, B, at(1_000))).toBe(1_000);
  },

  'that an operator has ended gives the fire back': async (lock) => {
    await claim(lock, A, at(1_000));
    await lock.forceRelease();
    expect(await lock.release(A, VOID)).toBe('revoked');
    lock.now += 1;
    expect(await claim(lock, B, at(1_000))).toBe(1_000);
  },

  'that was released without an outcome gives the fire back': async (lock) => {
    await claim(lock, A, at(1_000));
    expect(await lock.release(A)).toBe('released');
    expect(await lock.release(A, VOID)).toBe('again');
    expect(await claim(lock, B, at(1_000))).toBe(1_000);
  },

  'whose lease is over changes no run of another, and not its own of before': async (lock) => {
    await claim(lock, A, at(1_000));
    lock.now += LEASE_MS;
    await claim(lock, B, at(2_000));
    const before = [await ringOf(lock), await runOf(lock)];
    expect(await lock.release(A, VOID)).toBe('unknown');
    expect([await ringOf(lock), await runOf(lock)]).toEqual(before);
    await expectClaimed(lock, C, at(1_000));
    await expectClaimed(lock, C, at(2_000), B);
  },

  'whose lease is over works when the server is full': async (lock) => {
    await claim(lock, A, at(1_000));
    lock.now += LEASE_MS;
    await lock.fillServer();
    expect(await lock.release(A, VOID)).toBe('expired');
    expect([await ringOf(lock), await runOf(lock)]).toEqual([';', [undefined, undefined]]);
  },

  ...Object.fromEntries(
    ['done', 'failed'].map((runOutcome) => [
      `is the only outcome that counts when the lease is over: not ${runOutcome}`,
      async (lock: DrivenLock) => {
        await claim(lock, A, at(1_000));
        const before = await runOf(lock);
        lock.now += LEASE_MS;
        expect(await lock.release(A, { job: JOB, runOutcome })).toBe('expired');
        expect(await runOf(lock)).toEqual(before);
        await expectClaimed(lock, B, at(1_000), A);
      },
    ]),
  ),
};

/** What a node tells, so that a quorum can judge it. */
const OF_REPLIES: Checks = {
  'a claim that is refused names the attempt while its run has no outcome, and of no other fire': async (lock) => {
    await claim(lock, A, { ...at(1_000), owner: 'ann' });
    await claim(lock, B, { ...at(2_000), owner: 'ann' });
    await expectClaimed(lock, C, at(1_000));
    await expectClaimed(lock, C, at(2_000), B);
    await lock.release(B, DONE);
    await expectClaimed(lock, C, at(2_000));
  },

  'a claim of a distance that is refused names the attempt, too': async (lock) => {
    const gap = { ...CLAIM, fireKind: 'gap', fireMs: WIDTH_MS };
    await claim(lock, A, gap);
    lock.now += LEASE_MS;
    await expectClaimed(lock, B, gap, A);
    await lock.release(A, VOID);
    await claim(lock, B, gap);
    lock.now += 1;
    await lock.release(B, { job: JOB, runOutcome: 'failed' });
    await expectClaimed(lock, C, gap);
  },

  'a claim that is refused for another reason names nobody': async (lock) => {
    await claim(lock, A, at(1_000));
    await lock.release(A);
    expect(await lock.acquire(A, at(1_000))).toEqual(['refused', A, `${lock.now}`, 'released', '']);
    await lock.take(B, { mode: 'read', owner: 'ann' });
    const upgrade = await lock.acquire(C, { ...at(1_000), rerun: 1, owner: 'ann' });
    expect(upgrade).toEqual(['refused', C, `${lock.now}`, 'upgrade', '']);
  },

  'a busy lock names the owner who writes, an attempt or a name': async (lock) => {
    const busy = async (holder: string, owner: string) => [
      'busy',
      C,
      `${lock.now}`,
      `${LEASE_MS}`,
      '0',
      holder,
      owner,
      '',
      '',
      await lock.lastToken(),
      '',
      '',
    ];
    await claim(lock, A, at(1_000));
    expect(await lock.acquire(C, at(2_000))).toEqual(await busy('host-1:4711 Orders.pay', A));
    await lock.release(A, VOID);
    await lock.take(B, { owner: 'ann' });
    expect(await lock.acquire(C, at(2_000))).toEqual(await busy('host-1:4711 Orders.pay', 'ann'));
    expect(await lock.acquire(C, { owner: 'bob' })).toEqual(await busy('host-1:4711 Orders.pay', 'ann'));
    await lock.release(B);
    await lock.take(attempt('r', 9), { mode: 'read', owner: 'ann' });
    expect(await lock.acquire(C, at(2_000))).toEqual(await busy('', ''));
  },

  'a lock that is parked names no owner': async (lock) => {
    await claim(lock, A, { ...at(1_000), owner: 'ann' });
    await lock.release(A, { ...DONE, holdAtLeastMs: 20_000 });
    const token = await lock.lastToken();
    expect((await lock.acquire(C, at(2_000))).slice(3)).toEqual(['20000', '0', '', '', '', '', token, '', '']);
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
      expect(await lock.release(A, { job: JOB, runOutcome })).toBe('released');
      const ended = runOutcome === '-' ? '0 -' : `${lock.now} ${runOutcome}`;
      expect(await runOf(lock)).toEqual([`1000 ${A} ${START_MS} ${ended}`, 'host-1:4711']);
      expect(await ringOf(lock)).toBe(';1000;');
      lock.now += LEASE_MS;
      await expectClaimed(lock, B, at(1_000), runOutcome === '-' ? A : '');
    },
  ]),
);

/** That a void takes back no run that has ended: the grant of an attempt may come twice, and the second too late. */
const OF_ENDED_RUNS: Checks = Object.fromEntries(
  ['done', 'failed'].map((runOutcome) => [
    `does not take back a run that is ${runOutcome}`,
    async (lock: DrivenLock) => {
      await claim(lock, A, at(1_000));
      expect(await lock.release(A, { job: JOB, runOutcome })).toBe('released');
      await lock.expectUntouched(async () => expect(await lock.release(A, VOID)).toBe('again'));
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
  ...OF_EVICTED,
  ...OF_LATE_ONES,
  ...OF_ENDED_RUNS,
  ...OF_REPLIES,
  ...OF_PATTERNS,
  ...OF_OTHER_OUTCOMES,
};
