import { Ending } from '../../../../lib/core/hold/ending.js';

describe('the end of a hold', () => {
  it('calls back once, with its first outcome, whoever asks before or after', () => {
    const ending = new Ending();
    const told: unknown[] = [];
    ending.onSettled((isConfirmed) => told.push(['first', isConfirmed]));
    ending.onSettled((isConfirmed) => told.push(['second', isConfirmed]));
    expect(told).toEqual([]);
    ending.settle(true);
    ending.settle(false);
    ending.onSettled((isConfirmed) => told.push(['late', isConfirmed]));
    expect(told).toEqual([
      ['first', true],
      ['second', true],
      ['late', true],
    ]);
  });

  it('can be awaited as a promise', async () => {
    const ending = new Ending();
    const awaited = ending.toPromise();
    ending.settle(false);
    expect(await awaited).toBe(false);
  });

  it.each([false, true])('settles a promise as the code that follows it; settled before: %s', async (isSettled) => {
    const ending = new Ending();
    if (isSettled) ending.settle(true);
    const returned = Promise.resolve(ending.andThen(() => 'value'));
    const rejected = Promise.resolve(
      ending.andThen(() => {
        throw new Error('lost');
      }),
    );
    ending.settle(true);
    expect(await returned).toBe('value');
    await expect(rejected).rejects.toThrow('lost');
  });
});
