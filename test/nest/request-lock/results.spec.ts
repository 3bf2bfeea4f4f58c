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
import { type Observable, of, throwError } from 'rxjs';
import { currentLock, LockInterceptor } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree } from '../../support/waiting/waiters.js';
import { PLATFORMS, type Response, startRequests } from '../support/requests.js';
import { Work } from '../support/transports.js';

const BUSINESS = () => new ConflictException({ reason: 'sold out' });

@Controller()
@UseInterceptors(LockInterceptor.for('order:<0.params.id>'))
class Orders {
  constructor(private readonly work: Work) {}

  @Get('value/:id')
  value(): string {
    return currentLock().key;
  }

  @Get('promise/:id')
  async promise(): Promise<string> {
    return currentLock().key;
  }

  @Get('observable/:id')
  observable(): Observable<string> {
    return of('first', currentLock().key);
  }

  @Get('promised-observable/:id')
  async promisedObservable(): Promise<Observable<string>> {
    return of('first', currentLock().key);
  }

  @Get('nothing/:id')
  nothing(): void {}

  @Get('throws/:id')
  throws(): void {
    throw BUSINESS();
  }

  @Get('rejects/:id')
  async rejects(): Promise<void> {
    throw BUSINESS();
  }

  @Get('errors/:id')
  errors(): Observable<never> {
    return throwError(BUSINESS);
  }

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
}

afterEach(closeAll);

describe.each(PLATFORMS)('a locked handler on %s', (platform) => {
  const start = () => startRequests(platform, { controllers: [Orders] });

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
});
