import { currentLock, runHolding } from '../../../lib/core/reentry/context.js';
import { callForeign, harmless } from '../../../lib/core/foreign-code.js';
import { LockError, LockNotHeldError } from '../../../lib/core/lock.errors.js';
import { messageOf, type Reporter } from '../../../lib/core/reporter.js';
import { errorTypeOf } from '../../../lib/observability/measure-locks.js';
import { heldLock, startLocker } from '../../support/core/core-parts.js';
import { settled } from '../../support/core/fake-clock.js';

function revokedProxy(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

const UNREADABLE: readonly unknown[] = [Object.create(null), revokedProxy()];

const broken = (): never => {
  throw new Error('broken');
};

describe('foreign code that is not awaited', () => {
  it('is called without a current lock', () => {
    const caught: unknown[] = [];
    runHolding(heldLock(), () => callForeign(currentLock, (error) => caught.push(error)));
    expect(caught).toEqual([expect.any(LockNotHeldError)]);
  });

  it('passes its errors to the error handler, at once or later', async () => {
    const caught: unknown[] = [];
    const onError = (error: unknown): void => void caught.push(error);
    callForeign(broken, onError);
    callForeign(() => Promise.reject(new Error('later')), onError);
    await settled();
    expect(caught).toEqual([new Error('broken'), new Error('later')]);
  });

  it('may return an object with its own `then`, which is not read', () => {
    const looks: unknown[] = [];
    const query = new Proxy({}, { get: (_target, name) => looks.push(name) });
    callForeign(
      () => query,
      (error) => looks.push(error),
    );
    expect(looks).toEqual([]);
  });
});

describe('a foreign logger', () => {
  it('gets each line on its level, and may throw on all of them', () => {
    const lines: string[] = [];
    const say = (level: string) => (line: string) => {
      lines.push(`${level} ${line}`);
      broken();
    };
    const reporter: Reporter = harmless({ debug: say('debug'), warn: say('warn'), error: say('error') });
    reporter.debug('a');
    reporter.warn('b');
    reporter.error('c');
    expect(lines).toEqual(['debug a', 'warn b', 'error c']);
  });
});

describe('the text of a thrown value', () => {
  it.each(UNREADABLE)('exists even if the value has none (%#)', (thrown) => {
    expect(messageOf(thrown)).toBe('a value of type object that has no text');
    expect(errorTypeOf(thrown)).toBe('_OTHER');
    expect(thrown instanceof LockError).toBe(false);
  });

  it('is a string, whatever the message of the error is', () => {
    expect(messageOf(Object.assign(new Error(), { message: 7 }))).toBe('7');
    expect(messageOf(Symbol('thrown'))).toBe('Symbol(thrown)');
  });
});

describe('listeners that throw at each event', () => {
  it('are logged a few times, and then counted', async () => {
    const { locker, under, reporter, clock } = startLocker();
    locker.events.on('acquired', broken);
    for (let i = 0; i < 30; i += 1) await under('k', () => undefined);
    expect(reporter.lines).toHaveLength(10);
    await clock.advance(10_000);
    expect(reporter.lines.at(-1)).toBe('error Within 10 s, 20 more listeners threw.');
    expect(reporter.lines).toHaveLength(11);
  });
});
