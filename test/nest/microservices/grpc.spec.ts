import { Controller, UseInterceptors } from '@nestjs/common';
import { GrpcStreamMethod } from '@nestjs/microservices';
import { Observable, reduce } from 'rxjs';
import { Locked, LockConfigurationError, LockInterceptor } from '../../../lib/index.js';
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
