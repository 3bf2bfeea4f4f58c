import { Catch, Controller, type ExceptionFilter, UseFilters } from '@nestjs/common';
import { EventPattern, MessagePattern, Payload, RpcException } from '@nestjs/microservices';
import { EMPTY } from 'rxjs';
import { Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { type Service, collect, startService } from '../support/transports-tcp.js';

const ERRORS: Record<string, () => Error> = {
  RpcException: () => new RpcException({ code: 7, message: 'sold out' }),
  Error: () => new Error('secret'),
};

const caught: unknown[] = [];

@Catch()
class Catcher implements ExceptionFilter {
  catch(error: unknown): unknown {
    caught.push(error);
    return EMPTY;
  }
}

@Controller()
class Failures {
  @MessagePattern('fails unlocked')
  async unlocked(@Payload('name') name: string): Promise<string> {
    throw ERRORS[name]!();
  }

  @MessagePattern('fails above')
  @Locked('order:<0>')
  async above(@Payload('name') name: string): Promise<string> {
    throw ERRORS[name]!();
  }

  @Locked('order:<0>')
  @MessagePattern('fails below')
  async below(@Payload('name') name: string): Promise<string> {
    throw ERRORS[name]!();
  }

  @EventPattern('fails as event')
  @UseFilters(Catcher)
  @Locked('order:<0>')
  async event(@Payload('name') name: string): Promise<void> {
    throw ERRORS[name]!();
  }

  @MessagePattern('busy')
  @Locked('order:<0.id>', { ifBusy: 'throw' })
  async busy(@Payload() _order: { id: string }): Promise<void> {}
}

const start = (): Promise<Service> => startService([Failures]);

afterEach(closeAll);

describe('an error', () => {
  it.each(Object.keys(ERRORS))('%s of the method reaches the client as without a lock', async (name) => {
    const service = await start();
    const [unlocked, above, below] = await Promise.all(
      ['unlocked', 'above', 'below'].map((how) => collect(service, `fails ${how}`, { name }).end),
    );
    expect(unlocked).toHaveProperty('message', name === 'Error' ? 'Internal server error' : 'sold out');
    expect([above, below]).toEqual([unlocked, unlocked]);
  });

  it.each(Object.keys(ERRORS))(
    '%s of an event handler reaches its exception filter, and frees the key',
    async (name) => {
      const service = await start();
      const before = caught.length;
      service.client.emit('fails as event', { name });
      expect(await eventually(() => caught[before])).toEqual(ERRORS[name]!());
      expect(await service.locks.isLocked(`order:${name}`)).toBe(false);
    },
  );

  it('LockBusyError reaches the client like any unknown error, without keys and holders', async () => {
    const service = await start();
    const id = freshKey();
    await service.locks.acquire(`order:${id}`);
    expect(await collect(service, 'busy', { id }).end).toEqual({ status: 'error', message: 'Internal server error' });
  });
});
