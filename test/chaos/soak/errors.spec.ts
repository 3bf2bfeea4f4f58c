import { History } from '../checker/history.js';
import { Story } from '../story.js';
import { unexpectedErrors } from './errors.js';

const textsOf = (story: Story): string[] => unexpectedErrors(History.of(story.events)).map(({ text }) => text);

const failing = (code: string) => new Story().call(100, 'w0.1:1').of(150, 'w0.1:1', 'failed', { code });
const failover = (story: Story) =>
  story.nemesis(120, 'fault', { id: 1, kind: 'master killed', forgets: 'all' }).nemesis(130, 'over', { id: 1 });

describe('The errors that a soak expects', () => {
  it.each(['LOCK_BUSY', 'LOCK_WAIT_TIMEOUT', 'TimeoutError', 'skipped'])('are %s at any time', (code) => {
    expect(textsOf(failing(code))).toEqual([]);
  });

  it('are those of the store during a failover only', () => {
    expect(textsOf(failover(failing('LOCK_STORE')))).toEqual([]);
    expect(textsOf(failing('LOCK_STORE'))).toEqual(['w0.1:1 failed: LOCK_STORE']);
  });

  it('are those of the store after a standstill, too, if it was long', () => {
    const lag = (from: number) => failing('LOCK_STORE').process(110, 'w1.1', 'lag', { from });
    expect(textsOf(lag(-1_000))).toEqual([]);
    expect(textsOf(lag(50))).toEqual(['w0.1:1 failed: LOCK_STORE']);
  });

  it('are no others, failover or not', () => {
    expect(textsOf(failover(failing('TypeError')))).toEqual(['w0.1:1 failed: TypeError']);
  });

  it('are the same for a look at a lock', () => {
    const look = (code: string) => new Story().process(500, 'w0.1', 'error', { what: 'look', code });
    expect(textsOf(failover(look('LOCK_STORE')))).toEqual([]);
    expect(textsOf(look('LOCK_STORE'))).toEqual(['look of w0.1 failed: LOCK_STORE']);
  });
});
