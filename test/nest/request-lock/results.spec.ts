import { Readable } from 'node:stream';
import {
  ConflictException,
  Controller,
  Get,
  Header,
  HttpCode,
  Param,
  Post,
  Redirect,
  Res,
  UseInterceptors,
} from '@nestjs/common';
import { of, throwError } from 'rxjs';
import { currentLock, LockConfigurationError, Locked, LockInterceptor } from '../../../lib/index.js';
import { eventually, eventuallyPasses } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree } from '../../support/waiting/waiters.js';
import { PLATFORMS, type Response, startRequests } from '../support/requests.js';
import { routesOf } from '../support/routes.js';
import { Work } from '../support/transports.js';

const ById = LockInterceptor.for('order:<0.params.id>');
const key = (): string => currentLock().key;
const fail = (): never => {
  throw new ConflictException({ reason: 'sold out' });
};

const Routes = routesOf({
  'value/:id': [ById, key],
  'promise/:id': [ById, async () => key()],
  'observable/:id': [ById, () => of('first', key())],
  'promised-observable/:id': [ById, async () => of('first', key())],
  'nothing/:id': [ById, () => undefined],
  'throws/:id': [ById, fail],
  'rejects/:id': [ById, async () => fail()],
  'errors/:id': [ById, () => throwError(() => new ConflictException({ reason: 'sold out' }))],
});

/** What both platforms have of their responses. */
type Sent = Response & NodeJS.WritableStream;

@Controller()
@UseInterceptors(ById)
class Orders {
  constructor(private readonly work: Work) {}

  @Get('passthrough/:id')
  passthrough(@Res({ passthrough: true }) response: Response): string {
    response.status(202).header('x-key', currentLock().key);
    return currentLock().key;
  }

  @Get('manual/:id')
  async manual(@Param('id') id: string, @Res() response: Response): Promise<void> {
    response.status(203).send(await this.work.run(id));
  }

  @Post('code/:id')
  @HttpCode(202)
  @Header('x-fixed', 'yes')
  code(): string {
    return currentLock().key;
  }

  @Post('created/:id')
  created(): string {
    return currentLock().key;
  }

  @Get('redirect/:id')
  @Redirect('https://example.test/fixed', 301)
  redirect(): object {
    return { url: `https://example.test/${currentLock().key}`, statusCode: 307 };
  }

  @Get('redirect-fixed/:id')
  @Redirect('https://example.test/fixed', 301)
  redirectFixed(): void {}

  @Get('by-request/:id')
  byRequest(@Res() response: Sent): unknown {
    return response.send('sent');
  }
}

@Controller()
class LockedMethods {
  @Get('by-method/:id')
  @Locked('order:<0>')
  async byMethod(@Param('id') _id: string, @Res() response: Sent): Promise<unknown> {
    return response.send('sent');
  }

  @Get('piped/:id')
  @Locked('order:<0>')
  async piped(@Param('id') _id: string, @Res() response: Sent): Promise<unknown> {
    return Readable.from(['text']).pipe(response);
  }
}

const CONTROLLERS = [Routes, Orders, LockedMethods];

afterEach(closeAll);

describe.each(PLATFORMS)('a locked handler on %s', (platform) => {
  const start = () => startRequests(platform, { controllers: CONTROLLERS });

  it.each(['value', 'promise', 'observable', 'promised-observable'])('answers with its %s', async (name) => {
    const [app, id] = [await start(), freshKey()];
    expect(await app.get(`${name}/${id}`)).toMatchObject({ status: 200, text: `order:${id}` });
    expect(await app.locks.isLocked(`order:${id}`)).toBe(false);
    expect(app.acquired).toEqual([`order:${id}`]);
  });

  it('gets an empty response when it returns nothing', async () => {
    const app = await start();
    expect(await app.get(`nothing/${freshKey()}`)).toMatchObject({ status: 200, text: '' });
  });

  it.each(['throws', 'rejects', 'errors'])('passes its error unchanged, and releases, when it %s', async (name) => {
    const [app, id] = [await start(), freshKey()];
    const { status, text } = await app.get(`${name}/${id}`);
    expect([status, JSON.parse(text)]).toEqual([409, { reason: 'sold out' }]);
    expect(app.failures).toEqual([expect.any(ConflictException)]);
    expect(await app.locks.isLocked(`order:${id}`)).toBe(false);
  });

  it('may set status and headers besides its result', async () => {
    const [app, id] = [await start(), freshKey()];
    const { status, text, headers } = await app.get(`passthrough/${id}`);
    expect([status, text, headers.get('x-key')]).toEqual([202, `order:${id}`, `order:${id}`]);
  });

  it('may send the response itself, and holds the lock while it runs', async () => {
    const [app, id] = [await start(), freshKey()];
    const answer = app.get(`manual/${id}`);
    await eventually(() => app.work.isRunning(id));
    expect(await app.locks.isLocked(`order:${id}`)).toBe(true);
    app.work.finish();
    expect(await answer).toMatchObject({ status: 203, text: `order:${id}` });
    await untilFree(app, `order:${id}`);
  });

  it('keeps @HttpCode and @Header, and 201 for POST', async () => {
    const [app, id] = [await start(), freshKey()];
    const { status, text, headers } = await app.get(`code/${id}`, { method: 'POST' });
    expect([status, text, headers.get('x-fixed')]).toEqual([202, `order:${id}`, 'yes']);
    expect((await app.get(`created/${id}`, { method: 'POST' })).status).toBe(201);
  });

  it('keeps @Redirect', async () => {
    const [app, id] = [await start(), freshKey()];
    const { status, headers } = await app.get(`redirect/${id}`);
    expect([status, headers.get('location')]).toEqual([307, `https://example.test/order:${id}`]);
    const fixed = await app.get(`redirect-fixed/${id}`);
    expect([fixed.status, fixed.headers.get('location')]).toEqual([301, 'https://example.test/fixed']);
  });

  it.each(['by-request', 'by-method'])('may return the response when it is sent: %s', async (name) => {
    const [app, id] = [await start(), freshKey()];
    expect(await app.get(`${name}/${id}`)).toMatchObject({ status: 200, text: 'sent' });
    expect(app.failures).toEqual([]);
    await untilFree(app, `order:${id}`);
  });
});

it('a response that something is still piped into is refused as a result', async () => {
  const [app, id] = [await startRequests('express', { controllers: CONTROLLERS }), freshKey()];
  await app.get(`piped/${id}`).catch(() => undefined);
  // The client may have the text before the call has failed.
  await eventuallyPasses(() => expect(app.failures).toEqual([expect.any(LockConfigurationError)]));
  await untilFree(app, `order:${id}`);
});
