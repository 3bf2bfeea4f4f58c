import { jest } from '@jest/globals';
import { Controller, Get, Logger, Param, UseInterceptors } from '@nestjs/common';
import { LockBusyError, LockInterceptor, LockLostError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { PLATFORMS, startRequests } from '../support/requests.js';
import { Work } from '../support/transports.js';

/** As it comes in a path: a line of its own in the log, in red. */
const FORGED = '%0A[Nest]%20ERROR%1B[31m%E2%80%A8forged';
const SHOWN = '\\n[Nest] ERROR\\u001b[31m\\u2028forged';

@Controller()
class Orders {
  constructor(private readonly work: Work) {}

  @Get('run/:id')
  @UseInterceptors(LockInterceptor.for('order:<0.params.id>', { ifBusy: 'throw' }))
  run(@Param('id') id: string): Promise<string> {
    return this.work.run(id);
  }
}

const logged = jest.spyOn(Logger.prototype, 'error');
afterEach(() => void logged.mockClear());

describe.each(PLATFORMS)('a path with control characters that fills a key (%s)', (platform) => {
  afterEach(closeAll);

  it('is escaped in errors and the log, and unchanged in Redis', async () => {
    const work = new Work();
    const app = await startRequests(platform, { controllers: [Orders] }, { work });
    const name = freshKey();
    const key = `order:${name}${decodeURIComponent(FORGED)}`;
    const lost = app.locks.withLock(key, async ({ signal }) => {
      expect((await app.get(`run/${name}${FORGED}`)).status).toBe(500);
      await app.locks.forceRelease(key);
      await eventually(() => signal.aborted);
    });
    await expect(lost).rejects.toThrow(LockLostError);
    const errors = [...app.failures, await lost.catch((error: Error) => error)] as Error[];
    expect(errors).toMatchObject([{ key }, { key }]);
    expect(errors[0]).toBeInstanceOf(LockBusyError);
    for (const { message } of errors) expect(message).toContain(`"order:${name}${SHOWN}"`);
    const lines = logged.mock.calls.map(([line]) => String(line)).filter((line) => line.includes(name));
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expect(line).toContain(`"order:${name}${SHOWN}"`);
  });
});
