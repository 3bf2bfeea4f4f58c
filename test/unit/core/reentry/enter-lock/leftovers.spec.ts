import { LockReentryError } from '../../../../../lib/core/lock.errors.js';
import { startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { gate } from '../../../../support/waiting/gate.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';

describe('a call that is not awaited, inside a nested call for several keys', () => {
  /** Under a hold of both keys: a nested call of both is left by a call of the second, which then asks for the first. */
  async function ask(mode: 'read' | 'write') {
    const { under, locker } = startLocker();
    const left = gate();
    let asked: Promise<string> | undefined;
    const held = under(['a', 'b'], async () => {
      await under(
        ['a', 'b'],
        async () => {
          asked = under(
            'b',
            async () => {
              await left.opened;
              return under('a', () => 'entered', { mode });
            },
            { mode },
          );
        },
        { mode },
      );
      left.open();
      await asked!.catch(() => undefined);
    });
    await settled();
    return { held, asked: outcomeOf(asked!), locker };
  }

  it('is refused at once when it would wait for its own end', async () => {
    const { held, asked, locker } = await ask('write');
    expect(asked.error).toBeInstanceOf(LockReentryError);
    expect(asked.error).toMatchObject({ key: 'a', message: expect.stringMatching(/nobody awaited/) });
    await held;
    expect(locker.live).toMatchObject({ locks: 0, waiting: 0 });
  });

  it('may read beside a reader', async () => {
    const { held, asked } = await ask('read');
    expect(asked).toEqual({ value: 'entered' });
    await held;
  });
});
