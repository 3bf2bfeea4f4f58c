import { hostname } from 'node:os';
import { Controller, UseFilters, UseInterceptors } from '@nestjs/common';
import { EventPattern } from '@nestjs/microservices';
import { Limited, Locked, LockExceptionFilter, LockInterceptor } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { microservices, type Transport, TRANSPORTS } from '../support/every-transport.js';
import { collect, startService } from '../support/transports-tcp.js';

const FILTER = new LockExceptionFilter({ retryAfterMs: 2_500 });
const BUSY = {
  statusCode: 423,
  code: 'LOCK_BUSY',
  error: 'Locked',
  message: 'This is in use at the moment; try again.',
  retryAfterMs: 2_500,
};
const MISSING = {
  statusCode: 400,
  error: 'Bad Request',
  code: 'LOCK_KEY',
  message: 'A required value is missing or invalid.',
};

/** The error that a client gets with this answer. */
const TOLD: Record<string, (body: Omit<typeof BUSY, 'retryAfterMs'>) => object> = {
  express: (body) => body,
  fastify: (body) => body,
  microservices: (body) => ({ status: 'error', ...body }),
  WebSockets: (body) => ({ status: 'error', ...body }),
  GraphQL: ({ message, ...extensions }) => expect.objectContaining({ message, extensions }) as object,
};

function handlersOf({ declares, handles, id, key }: Transport) {
  @declares()
  @UseFilters(FILTER)
  class Orders {
    @handles('busy')
    @UseInterceptors(LockInterceptor.for(key, { ifBusy: 'throw' }))
    busy(@id() _id: string): string {
      return 'ran';
    }

    @handles('busyMethod')
    @Locked('order:<0>', { ifBusy: 'throw' })
    async busyMethod(@id() _id: string): Promise<string> {
      return 'ran';
    }

    @handles('conflict')
    @UseInterceptors(LockInterceptor.for(key, { ifBusy: 'throw', status: 409 }))
    conflict(@id() _id: string): string {
      return 'ran';
    }

    @handles('limited')
    @UseInterceptors(LockInterceptor.for(key, { mode: 'read', permits: 1, ifBusy: 'throw' }))
    limited(@id() _id: string): string {
      return 'ran';
    }

    @handles('limitedMethod')
    @Limited('order:<0>', 1, { ifBusy: 'throw' })
    async limitedMethod(@id() _id: string): Promise<string> {
      return 'ran';
    }

    @handles('missing')
    @UseInterceptors(LockInterceptor.for(key.replace('id>', 'none>')))
    missing(@id() _id: string): string {
      return 'ran';
    }

    /** The key of a method is not one of the request. */
    @handles('missingInMethod')
    @Locked('order:<0.none>' as 'order:<0>')
    async missingInMethod(@id() _id: string): Promise<string> {
      return 'ran';
    }

    @handles('fails')
    async fails(@id() _id: string): Promise<string> {
      throw new Error('reason');
    }
  }
  return Orders;
}

const ANSWERS: [handler: string, mode: 'read' | 'write', body: Omit<typeof BUSY, 'retryAfterMs'>][] = [
  ['busy', 'write', BUSY],
  ['busyMethod', 'write', BUSY],
  ['conflict', 'write', { ...BUSY, statusCode: 409, error: 'Conflict' }],
  ['limited', 'read', { ...BUSY, statusCode: 429, error: 'Too Many Requests' }],
  ['limitedMethod', 'read', { ...BUSY, statusCode: 429, error: 'Too Many Requests' }],
  ['missing', 'read', MISSING],
];

afterEach(closeAll);

describe.each(TRANSPORTS)('LockExceptionFilter on %s', (name, transport) => {
  const start = () => transport.start([handlersOf(transport)]);

  it.each(ANSWERS)('(%s) sends the client the problem, and nothing about the lock', async (handler, mode, body) => {
    const [app, id] = [await start(), freshKey()];
    const lock = await app.locks.acquire(`order:${id}`, { mode });
    const told = await app.call(handler, id);
    expect(told).toEqual({ failed: TOLD[name]!(body) });
    for (const secret of [id, 'order:', hostname(), `:${process.pid}`])
      expect(JSON.stringify(told)).not.toContain(secret);
    await lock.release();
    if (handler !== 'missing') expect(await app.call(handler, id)).toBe('ran');
  });

  it.each(['fails', 'missingInMethod'])('leaves other errors unchanged (%s)', async (handler) => {
    const { failed } = (await (await start()).call(handler, '7')) as { failed: object };
    const message: unknown = name === 'GraphQL' ? expect.stringMatching(/reason|none/) : 'Internal server error';
    expect(failed).toMatchObject({ message });
    expect(JSON.stringify(failed)).not.toContain('retryAfterMs');
  });
});

it('LockExceptionFilter survives a busy event', async () => {
  @Controller()
  @UseFilters(FILTER)
  class Events extends handlersOf(microservices) {
    @EventPattern('busy event')
    @UseInterceptors(LockInterceptor.for('order:<0.id>', { ifBusy: 'throw' }))
    busyEvent(_order: object): void {}
  }
  const [service, id] = [await startService([Events]), freshKey()];
  await service.locks.acquire(`order:${id}`);
  const failed: string[] = [];
  service.locks.events.on('acquireFailed', ({ key }) => failed.push(key));
  service.client.emit('busy event', { id });
  await eventually(() => failed.length === 1);
  expect(await collect(service, 'fails', { id }).end).toEqual({ status: 'error', message: 'Internal server error' });
});
