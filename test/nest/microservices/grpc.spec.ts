import { Controller, UseFilters, UseInterceptors } from '@nestjs/common';
import { GrpcMethod, GrpcStreamMethod } from '@nestjs/microservices';
import { Observable, reduce } from 'rxjs';
import { Limited, Locked, LockConfigurationError, LockExceptionFilter, LockInterceptor } from '../../../lib/index.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { startGrpc } from '../support/transports-grpc.js';

const joined = (messages: Observable<number>): Observable<string> =>
  messages.pipe(reduce((all, one) => `${all}${one}`, ''));

@Controller()
class Sums {
  @Locked('sum')
  @GrpcStreamMethod('Sums', 'Above')
  above(messages: Observable<number>): Observable<string> {
    return joined(messages);
  }

  @Locked('sum')
  @GrpcStreamMethod('Sums', 'PromiseAbove')
  async promiseAbove(messages: Observable<number>): Promise<Observable<string>> {
    return joined(messages);
  }

  @GrpcStreamMethod('Sums', 'PromiseBelow')
  @Locked('sum')
  async promiseBelow(messages: Observable<number>): Promise<Observable<string>> {
    return joined(messages);
  }

  @GrpcStreamMethod('Sums', 'Request')
  @UseInterceptors(LockInterceptor.for('sum'))
  request(messages: Observable<number>): Observable<string> {
    return joined(messages);
  }
}

@Controller()
class Below {
  @GrpcStreamMethod('Below', 'Sum')
  @Locked('sum')
  sum(messages: Observable<number>): Observable<string> {
    return joined(messages);
  }
}

class Inherits extends Below {}
Controller()(Inherits);

@Controller()
@UseFilters(LockExceptionFilter)
class Orders {
  @GrpcMethod('Orders', 'Charge')
  @Locked('order', { ifBusy: 'throw' })
  async charge(): Promise<string> {
    return 'ran';
  }

  @GrpcMethod('Orders', 'Limited')
  @Limited('limited', 1, { ifBusy: 'throw' })
  async limited(): Promise<string> {
    return 'ran';
  }

  @GrpcMethod('Orders', 'Missing')
  @UseInterceptors(LockInterceptor.for('order:<0.id>'))
  async missing(): Promise<string> {
    return 'ran';
  }
}

afterEach(closeAll);

describe('a gRPC method whose client streams', () => {
  it.each(['Above', 'PromiseAbove', 'PromiseBelow', 'Request'])(
    'gets all that the client sends before the lock is granted (%s)',
    async (rpc) => {
      const service = await startGrpc([Sums]);
      const held = await service.locks.acquire('sum');
      const { send, end, result } = service.stream(rpc, [1, 2]);
      await untilWaiting(service, 'sum');
      send(3);
      send(4);
      end();
      await held.release();
      expect(await result).toBe('1234');
      expect(await service.locks.isLocked('sum')).toBe(false);
    },
  );

  it.each([[Below], [Inherits]])('is refused at the start when it would lose them (%p)', async (controller) => {
    const error = await rejection(startGrpc([controller]));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('Below.sum: its lock is below @GrpcStreamMethod');
  });
});

describe('LockExceptionFilter on gRPC', () => {
  it.each([
    ['Charge', 'ABORTED', 10],
    ['Limited', 'RESOURCE_EXHAUSTED', 8],
    ['Missing', 'INVALID_ARGUMENT', 3],
  ])('answers %s with the status %s', async (rpc, _name, code) => {
    const service = await startGrpc([Orders]);
    await service.locks.acquire('order');
    await service.locks.acquire('limited', { mode: 'read', permits: 1 });
    expect(await service.call(rpc, {})).toMatchObject({ code, message: expect.any(String) });
  });

  it('answers a lock that is unavailable with the status UNAVAILABLE', async () => {
    const service = await startGrpc([Orders]);
    await service.locks.parts.locker.close(0);
    expect(await service.call('Charge', {})).toMatchObject({ code: 14 });
  });
});
