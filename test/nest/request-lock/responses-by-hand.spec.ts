import { Readable } from 'node:stream';
import { Controller, Get, Param, Res, UseInterceptors } from '@nestjs/common';
import { LockConfigurationError, LockInterceptor, Locked } from '../../../lib/index.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { eventuallyPasses } from '../../support/waiting/eventually.js';
import { untilFree } from '../../support/waiting/waiters.js';
import { PLATFORMS, startRequests } from '../support/requests.js';

/** What both platforms have of their responses. */
interface Answer extends NodeJS.WritableStream {
  send(body: string): this;
}

const ById = LockInterceptor.for('order:<0.params.id>');

@Controller()
class Orders {
  @Get('by-request/:id')
  @UseInterceptors(ById)
  byRequest(@Param('id') _id: string, @Res() response: Answer): Answer {
    return response.send('sent');
  }

  @Get('by-method/:id')
  @Locked('order:<0>')
  async byMethod(@Param('id') _id: string, @Res() response: Answer): Promise<Answer> {
    return response.send('sent');
  }

  @Get('piped/:id')
  @Locked('order:<0>')
  async piped(@Param('id') _id: string, @Res() response: Answer): Promise<Answer> {
    return Readable.from(['text']).pipe(response);
  }
}

afterEach(closeAll);

describe.each(PLATFORMS)('a handler that answers by the response itself on %s', (platform) => {
  const start = () => startRequests(platform, { controllers: [Orders] });

  it.each(['by-request', 'by-method'])('may return the response when it is sent: %s', async (name) => {
    const [app, id] = [await start(), freshKey()];
    expect(await app.get(`${name}/${id}`)).toMatchObject({ status: 200, text: 'sent' });
    expect(app.failures).toEqual([]);
    await untilFree(app, `order:${id}`);
  });
});

it('a response that something is still piped into is refused as a result', async () => {
  const [app, id] = [await startRequests('express', { controllers: [Orders] }), freshKey()];
  await app.get(`piped/${id}`).catch(() => undefined);
  // The client may have the text before the call has failed.
  await eventuallyPasses(() => expect(app.failures).toEqual([expect.any(LockConfigurationError)]));
  await untilFree(app, `order:${id}`);
});
