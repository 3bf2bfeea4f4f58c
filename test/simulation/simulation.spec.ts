import { createLoader } from './library/typescript-loader.mjs';
import type * as Planted from './planted/find-bug.js';

// Loaded as the command loads it: all of it belongs to one realm, which is not the one of the test.
const { BUGS, PROFILE_NAMES, digestOf, failAgain, failedRuns, findBug, findNothing } = createLoader()(
  'test/simulation/planted/find-bug.ts',
) as typeof Planted;

/** The machine may be slow, and shared: a seed takes up to a few seconds, and a bug needs up to sixty. */
const TIMEOUT_MS = 400_000;

describe('The simulation', () => {
  it.each(BUGS)(
    'finds a planted bug: $name',
    async (bug) => {
      expect(await findBug(bug)).not.toBeNull();
    },
    TIMEOUT_MS,
  );

  it.each(failedRuns())(
    'breaks a rule once more without a fix: $name',
    async (run) => {
      const { withFix, withoutFix } = await failAgain(run);
      expect(withFix).toEqual([]);
      expect(withoutFix).toContain(run.rule);
    },
    TIMEOUT_MS,
  );

  it.each(PROFILE_NAMES)(
    'finds nothing in the library itself: %s',
    async (profile) => {
      expect((await findNothing(profile))?.violations).toBeUndefined();
    },
    TIMEOUT_MS,
  );

  it(
    'repeats a run bit for bit',
    async () => {
      expect(await digestOf(9)).toBe(await digestOf(9));
    },
    TIMEOUT_MS,
  );

  it(
    'runs differently with another seed',
    async () => {
      expect(await digestOf(9)).not.toBe(await digestOf(23));
    },
    TIMEOUT_MS,
  );
});
