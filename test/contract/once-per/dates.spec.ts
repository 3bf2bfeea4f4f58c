import 'reflect-metadata';
import { LockConfigurationError, Locked } from '../../../lib/index.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

const NOON = new Date('2026-03-04T12:00:00.000Z');
const NEXT_NOON = new Date('2026-03-05T12:00:00.000Z');

/** Takes any value of a test as the date of a fire. */
const given = (_id: string, fire: unknown): Date => fire as Date;

class Reports {
  readonly dueAt = NOON;

  @Locked('report:<0>', { oncePer: (_id: string, fire: Date) => fire, spreadMs: 0 })
  async of(_id: string, fire: Date): Promise<string | undefined> {
    return fire.toISOString();
  }

  @Locked('own:<0>', {
    oncePer(this: Reports) {
      return this.dueAt;
    },
  })
  async own(_id: string): Promise<string | undefined> {
    return 'ran';
  }

  @Locked('given:<0>', { oncePer: given, spreadMs: 0 })
  async given(_id: string, _fire: unknown): Promise<string | undefined> {
    return 'ran';
  }
}

async function start() {
  const { app, locks } = await startApp({}, { providers: [Reports] });
  const skipped: string[] = [];
  locks.events.on('skipped', ({ reason }) => skipped.push(reason));
  return { reports: app.get(Reports), locks, skipped };
}

afterEach(closeAll);

describe('a job whose fire is named by a function of its arguments', () => {
  it('runs once for each date, on one of the instances', async () => {
    const [a, b, id] = [await start(), await start(), freshKey()];
    const fires = [NOON, NOON, NEXT_NOON, NEXT_NOON, NOON];
    const results: (string | undefined)[] = [];
    for (const fire of fires) results.push(await a.reports.of(id, fire), await b.reports.of(id, new Date(fire)));
    expect(results.filter((result) => result !== undefined)).toEqual([NOON.toISOString(), NEXT_NOON.toISOString()]);
    expect([...a.skipped, ...b.skipped]).toEqual(Array.from({ length: 8 }, () => 'claimed'));
    expect(await b.locks.lastRun(`report:${id}`)).toMatchObject({
      job: 'Reports.of',
      fire: NEXT_NOON,
      outcome: 'done',
    });
  });

  it('calls the function with the instance as `this`', async () => {
    const [{ reports, locks }, id] = [await start(), freshKey()];
    expect([await reports.own(id), await reports.own(id)]).toEqual(['ran', undefined]);
    expect((await locks.lastRun(`own:${id}`))?.fire).toEqual(NOON);
  });

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'undefined'],
    ['a number', NOON.getTime(), 'a value of type number'],
    ['a text', NOON.toISOString(), 'a value of type string'],
    ['a promise', Promise.resolve(NOON), 'a promise'],
    ['no valid date', new Date('never'), 'an invalid Date'],
    ['a date before 1970', new Date(-1), 'a Date before 1970'],
  ])('rejects and sends nothing when the function returns %s', async (_what, fire, told) => {
    const [{ reports, locks }, id] = [await start(), freshKey()];
    const error = await rejection(reports.given(id, fire));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toBe(
      `Reports.given: the function \`oncePer\` returned ${told}, expected a Date from 1970 on; return the time at which the ` +
        'job was due (it cannot be async).',
    );
    expect(await locks.lastRun(`given:${id}`)).toBeNull();
  });
});
