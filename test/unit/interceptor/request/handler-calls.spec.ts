import { NEVER, of } from 'rxjs';
import { LockNotHeldError } from '../../../../lib/core/lock.errors.js';
import { HandlerCalls } from '../../../../lib/interceptor/request/handler-calls.js';
import { settled } from '../streams/fake-stream-lock.js';

type Handler = (...args: unknown[]) => unknown;

/** Calls a handler as Nest does, within one request of it. */
function request(handler: Handler) {
  const calls = new HandlerCalls(handler, [], 'Orders.run');
  const call = (...args: unknown[]): unknown => calls.run(() => handler.apply(undefined, args));
  return { calls, call };
}

describe('the calls of a handler', () => {
  it('keep its `this`, arguments, result and error', () => {
    const instance = { own: 1 };
    const handler = function (this: unknown, ...args: unknown[]): unknown {
      return [this, args];
    };
    const calls = new HandlerCalls(handler, [], 'Orders.run');
    expect(calls.run(() => handler.apply(instance, [1, 2]))).toEqual([instance, [1, 2]]);
    const error = new Error('business');
    const failing = request(() => {
      throw error;
    });
    expect(() => failing.call()).toThrow(error);
    expect(failing.calls.isWorking).toBe(false);
  });

  it('are running until all of their promises have settled', async () => {
    const ends: (() => void)[] = [];
    const { calls, call } = request(() => new Promise<void>((resolve) => void ends.push(resolve)));
    void call();
    void call();
    let isIdle = false;
    void calls.idle().then(() => (isIdle = true));
    ends[0]!();
    await settled();
    expect([calls.isWorking, isIdle]).toEqual([true, false]);
    ends[1]!();
    await settled();
    expect([calls.isWorking, isIdle]).toEqual([false, true]);
  });

  it('call then() of a thenable once, since that may start its work', async () => {
    let asked = 0;
    // oxlint-disable-next-line unicorn/no-thenable -- as those of query builders are
    const query = { then: (resolve: (value: string) => void) => ((asked += 1), resolve('rows')) };
    const { calls, call } = request(() => query);
    expect([await call(), asked]).toEqual(['rows', 1]);
    await calls.idle();
  });

  it.each([
    ['at once', () => NEVER],
    ['in a promise', async () => of(1)],
  ])('report that an Observable was returned (%s)', async (_how, handler) => {
    const { calls, call } = request(handler);
    let told = 0;
    calls.onStream(() => (told += 1));
    void call();
    await settled();
    expect([calls.isStream, calls.isWorking, told]).toEqual([true, false, 1]);
  });

  it('belong to one request and its handler', async () => {
    const handler = () => new Promise(() => {});
    const [first, second] = [request(handler), request(handler)];
    void first.call();
    void handler.apply(undefined, []);
    void second.calls.run(() => (() => new Promise(() => {})).apply(undefined));
    expect([first.calls.isWorking, second.calls.isWorking]).toEqual([true, false]);
  });

  it('are seen by all locks of a request, and by none of the request in whose context it was made', async () => {
    const handler = () => new Promise(() => {});
    const [first, second] = [[1], [2]];
    const calls: HandlerCalls[] = [];
    const within = (request: object): HandlerCalls => {
      calls.push(new HandlerCalls(handler, request, 'Orders.run'));
      return calls.at(-1)!;
    };
    within(first).run(() => within(second).run(() => within(second).run(() => void handler.apply(undefined, []))));
    expect(calls.map(({ isWorking }) => isWorking)).toEqual([false, true, true]);
  });

  it('are counted once for a proxy, even when its target is watched, too', async () => {
    const method = async (): Promise<unknown> => 1;
    const proxy = new Proxy(method, { apply: (target, self, args) => target.apply(self, args as []) });
    const calls = new HandlerCalls(proxy, [], 'Orders.run');
    void new HandlerCalls(method, [], 'Orders.run');
    const result = calls.run(() => proxy.apply(undefined, []));
    expect(calls.isWorking).toBe(true);
    expect([await result, calls.isWorking]).toEqual([1, false]);
  });

  it('do not start when the request has ended', () => {
    let ran = 0;
    const { calls, call } = request(() => (ran += 1));
    calls.close();
    expect(() => call()).toThrow(LockNotHeldError);
    expect(() => call()).toThrow('Orders.run is not run any more');
    expect(ran).toBe(0);
  });

  it('may be made by other code in the context of a request that has ended', () => {
    const { calls, call } = request(() => 'ran');
    call();
    calls.close();
    expect(call()).toBe('ran');
  });

  it('are not seen for a frozen handler', () => {
    const { calls, call } = request(Object.freeze(async () => {}));
    void call();
    expect(calls.isWorking).toBe(false);
  });

  it('leave the handler unchanged for code that inspects it', () => {
    const handler = async (): Promise<void> => {};
    const before = Reflect.ownKeys(handler).length;
    for (let n = 0; n < 3; n += 1) void new HandlerCalls(handler, [], 'Orders.run');
    expect([Object.keys(handler), Reflect.ownKeys(handler).length]).toEqual([[], before + 1]);
  });
});
