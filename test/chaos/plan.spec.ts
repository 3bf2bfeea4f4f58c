import { chosen, type FaultKind, LARGEST_STEP_MS, planFaults, type PlannedFault } from './nemesis/plan.js';
import { networkFaults, workerFaults } from './nemesis/network-faults.js';
import { clockFaults, forgettingFaults, serverFaults } from './nemesis/server-faults.js';
import { type ChaosServer } from './servers.js';

const kind = (name: string, fields: Partial<PlannedFault> = {}): FaultKind => ({
  name,
  plan: (random) => ({ target: name, lastsMs: random.between(100, 2_000), inflict: async () => undefined, ...fields }),
});

const KINDS = [
  kind('a'),
  kind('b'),
  kind('same target 1', { target: 'x' }),
  kind('same target 2', { target: 'x' }),
  kind('data lost', { forgets: 'all' }),
  kind('clock back', { keepsDataMs: LARGEST_STEP_MS }),
];

const SEEDS = Array.from({ length: 50 }, (_, i) => i);
const plans = () => SEEDS.map((seed) => planFaults(KINDS, seed, 120_000));

describe('The plan of a chaos run', () => {
  it('is the same for the same seed, and another one for another seed', () => {
    const told = (seed: number) => JSON.stringify(planFaults(KINDS, seed, 60_000));
    expect(told(1)).toBe(told(1));
    expect(told(1)).not.toBe(told(2));
  });

  it('has all kinds of faults, which end before the run does', () => {
    for (const plan of plans()) {
      expect(new Set(plan.map(({ fault }) => fault.kind)).size).toBe(KINDS.length);
      for (const { atMs, fault } of plan) expect(atMs + fault.lastsMs).toBeLessThan(120_000);
    }
  });

  it('lets no two faults act on one target at the same time', () => {
    for (const plan of plans()) {
      const onX = plan.filter(({ fault }) => fault.target === 'x');
      onX.slice(1).forEach(({ atMs }, i) => expect(atMs).toBeGreaterThan(onX[i]!.atMs + onX[i]!.fault.lastsMs));
    }
  });

  it('keeps steps of a clock away from losses of data, before and after', () => {
    for (const plan of plans()) {
      const steps = plan.filter(({ fault }) => fault.keepsDataMs);
      const losses = plan.filter(({ fault }) => fault.forgets);
      for (const step of steps) {
        for (const loss of losses) {
          const [first, second] = step.atMs < loss.atMs ? [step, loss] : [loss, step];
          expect(second.atMs - first.atMs - first.fault.lastsMs).toBeGreaterThan(LARGEST_STEP_MS);
        }
      }
    }
  });
});

describe('The kinds of faults of a chaos run', () => {
  it('are all, those that are named, or none', () => {
    const namesOf = (only?: string[]) => chosen(KINDS, only).map(({ name }) => name);
    expect(namesOf()).toHaveLength(KINDS.length);
    expect(namesOf(['b', 'a'])).toEqual(['a', 'b']);
    expect(namesOf(['none'])).toEqual([]);
  });

  it('have names without a comma, which parts the names', () => {
    const place = () => ({}) as ChaosServer;
    const kinds = [...serverFaults([place]), ...forgettingFaults([place]), ...clockFaults([]), ...networkFaults([])];
    for (const { name } of [...kinds, ...workerFaults([])]) expect(name).not.toContain(',');
  });

  it('are refused when a name is unknown: otherwise, a run without faults would find nothing', () => {
    expect(() => chosen(KINDS, ['a', 'c'])).toThrow(/^--only c: expected none, or some of a, b, /);
  });
});
