import { type Bench, openBench } from './driven-lock.js';
import { timedScripts } from './run-script.js';
import { WRITE_BACK_CHECKS } from './write-back-checks.js';

describe('a write-back', () => {
  const scripts = timedScripts();
  let bench: Bench;

  beforeAll(async () => {
    bench = await openBench();
  });
  afterAll(() => bench.close());

  it.each(Object.entries(WRITE_BACK_CHECKS))('%s', (_name, check) => bench.run(scripts, check));
});
