import { type Bench, openBench } from './driven-lock.js';
import { timedScripts } from './run-script.js';
import { VOID_CLAIM_CHECKS } from './void-claim-checks.js';

describe('a release whose claim is void', () => {
  const scripts = timedScripts();
  let bench: Bench;

  beforeAll(async () => {
    bench = await openBench();
  });
  afterAll(() => bench.close());

  it.each(Object.entries(VOID_CLAIM_CHECKS))('%s', (_name, check) => bench.run(scripts, check));
});
