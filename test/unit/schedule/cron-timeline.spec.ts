import { Cron } from '@nestjs/schedule';
import * as fc from 'fast-check';
import { type App, closeApps, fireAt, startApp } from './schedule-app.js';

const EXPRESSIONS = [
  '* * * * * *',
  '*/7 * * * * *',
  '* * 9-17 * * 1-5',
  '*/10 * * * *',
  '0 * * * *',
  '30 2 * * *',
  '0,30 2 * * *',
  '15 1-3 * * *',
  '0 0 * * 0',
  '0 0 31 * *',
  '30 2 25 10 *',
  '@monthly',
];
const ZONES = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Sydney'];
const nameOf = (expression: string, timeZone: string) => `${expression} ${timeZone}`;

class Jobs {}
for (const expression of EXPRESSIONS) {
  for (const timeZone of ZONES) {
    const name = nameOf(expression, timeZone);
    const descriptor = { value: () => undefined, configurable: true, writable: true };
    Cron(expression, { name, timeZone, disabled: true })(Jobs.prototype, name, descriptor);
    Object.defineProperty(Jobs.prototype, name, descriptor);
  }
}

/** Luxon distinguishes the two hours of autumn by the offset of today: the tests set the date that it sees. */
const setToday = (time: string | number) => jest.spyOn(Date, 'now').mockReturnValue(new Date(time).getTime());
afterEach(() => void jest.restoreAllMocks());

let app: App;
beforeAll(async () => {
  app = await startApp(Jobs);
  await app.app.init();
});
afterAll(closeApps);

describe.each(['in winter', 'in summer', 'on the day'])('the days of change in Berlin, seen %s', (today) => {
  const fire = (expression: string, time: string): string => {
    setToday({ 'in winter': '2026-01-15T12:00:00Z', 'in summer': '2026-07-15T12:00:00Z' }[today] ?? time);
    return fireAt(app, nameOf(expression, 'Europe/Berlin'), time);
  };

  it.each([
    ['30 2 * * *', '2026-03-29T00:59:00Z', '2026-03-28T01:30:00Z', 'before the gap'],
    ['30 2 * * *', '2026-03-29T01:00:00Z', '2026-03-29T01:00:00Z', 'a time in the gap is due when it ends'],
    ['30 2 * * *', '2026-03-29T01:40:00Z', '2026-03-29T01:00:00Z', 'late'],
    ['30 2 * * *', '2026-03-30T00:30:00Z', '2026-03-30T00:30:00Z', 'the day after'],
    ['0 * * * *', '2026-03-29T01:00:00Z', '2026-03-29T01:00:00Z', 'the hour after the gap'],
    ['*/10 * * * *', '2026-03-29T01:10:00Z', '2026-03-29T01:10:00Z', 'minutes after the gap'],
  ])('spring: %s at %s is due at %s (%s)', (expression, time, expected) => {
    expect(fire(expression, time)).toBe(expected);
  });

  it.each([
    ['30 2 * * *', '2026-10-25T00:30:00Z', '2026-10-25T00:30:00Z', 'the first of two'],
    ['30 2 * * *', '2026-10-25T01:30:01Z', '2026-10-25T00:30:00Z', 'at the second'],
    ['30 2 * * *', '2026-10-25T01:45:00Z', '2026-10-25T00:30:00Z', 'late, in the second hour'],
    ['30 2 * * *', '2026-10-25T02:10:00Z', '2026-10-25T00:30:00Z', 'late, after both'],
    ['0,30 2 * * *', '2026-10-25T01:00:01Z', '2026-10-25T00:30:00Z', 'twice in the first hour'],
    ['30 2 * * *', '2026-10-26T01:30:00Z', '2026-10-26T01:30:00Z', 'the day after'],
    ['0 * * * *', '2026-10-25T00:00:01Z', '2026-10-25T00:00:00Z', 'every hour, the first'],
    ['0 * * * *', '2026-10-25T01:00:01Z', '2026-10-25T01:00:00Z', 'every hour, the second'],
    ['*/10 * * * *', '2026-10-25T01:20:00Z', '2026-10-25T01:20:00Z', 'minutes in the second hour'],
    ['*/10 * * * *', '2026-10-25T01:55:00Z', '2026-10-25T01:50:00Z', 'minutes in the second hour, late'],
  ])('autumn: %s at %s is due at %s (%s)', (expression, time, expected) => {
    expect(fire(expression, time)).toBe(expected);
  });

  it('have a known next fire within the second hour of autumn', () => {
    const time = '2026-10-25T01:40:00Z';
    expect(fire('*/10 * * * *', time)).toBe(time);
    expect(app.claimAt(nameOf('*/10 * * * *', 'Europe/Berlin'), time).rememberMs).toBe(20 * 60_000);
  });
});

describe('the fire that is found', () => {
  const changes = ['2026-03-29T01:00Z', '2026-10-25T01:00Z', '2026-11-01T06:00Z', '2026-04-04T16:00Z'];
  const anyTime = fc.integer({ min: Date.UTC(2022, 0), max: Date.UTC(2030, 0) });
  const nearChange = fc
    .tuple(fc.constantFrom(...changes), fc.integer({ min: -3 * 3_600_000, max: 26 * 3_600_000 }))
    .map(([change, after]) => new Date(change).getTime() + after);
  const anyJob = fc.tuple(fc.constantFrom(...EXPRESSIONS), fc.constantFrom(...ZONES));

  /** The result of the library itself, on that day. */
  const nextAfter = (name: string, time: number): number => {
    setToday(time);
    const { cronTime } = app.registry().getCronJob(name);
    return cronTime.getNextDateFrom(new Date(time), cronTime.timeZone).toMillis();
  };

  it('is the last one due by the library, and the same until the next one', () => {
    const property = fc.property(
      anyJob,
      fc.oneof(anyTime, nearChange),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (job, now, share) => {
        const name = nameOf(...job);
        setToday(now);
        const { ms: fire } = app.claimAt(name, now);
        const next = nextAfter(name, fire);
        expect(fire).toBeLessThanOrEqual(now + 50);
        expect(next).toBeGreaterThan(now + 50);
        const other = fire - 50 + Math.floor(share * (next - fire - 1));
        setToday(other);
        expect(app.claimAt(name, other).ms).toBe(fire);
      },
    );
    fc.assert(property, { numRuns: 60 });
  });
});
