import { jobName, isWellFormed } from '../../../lib/core/key.js';

describe('the name of a job', () => {
  it.each(['Reports.noon', `${'R'.repeat(123)}.noon`, 'Zähler.zähle 100 %', 'Reports.Symbol(noon)'])(
    'stays unchanged: %s',
    (name) => expect(jobName(name)).toBe(name),
  );

  it.each([
    ['longer than 128 characters', `${'R'.repeat(200)}.noon`],
    ['cut in the middle of a character', `${'R'.repeat(95)}${'😀'.repeat(50)}.noon`],
    ['ill-formed', 'Reports.\ud83d'],
  ])('is bounded, well-formed and distinct when it is %s', (_what, name) => {
    const names = [jobName(name), jobName(`${name}2`), jobName(`${name}\ud83e`)];
    expect(new Set(names).size).toBe(3);
    for (const one of names) expect([one.length <= 128, isWellFormed(one)]).toEqual([true, true]);
    expect(jobName(name)).toBe(names[0]);
  });
});
