import {
  ClientClosedError,
  ConnectionTimeoutError,
  ClientOfflineError,
  DisconnectsClientError,
  SimpleError,
  SocketClosedUnexpectedlyError,
} from 'redis';
import { errorOfCommand, errorOfConnection } from '../../../../lib/redis/client/node-redis.js';
import { isLost, isRetryable, isUnsent } from '../../../../lib/redis/connection/redis-errors.js';

/** Like the output of a bundler that renames classes. */
class Minified extends Error {}

describe('an error of node-redis', () => {
  it.each([
    new SimpleError('NOSCRIPT No matching script.'),
    new Minified('WRONGTYPE Operation against a key holding the wrong kind of value'),
    new SimpleError('something unusual'),
  ])('is a reply, by its class or its form: %s', (error) => {
    const { message } = error;
    const told = errorOfCommand(error);
    expect(told).toMatchObject({ name: 'ReplyError', message });
    expect([isLost(told), isUnsent(told), isRetryable(told)]).toEqual([false, false, message.startsWith('NOSCRIPT')]);
  });

  it.each([
    new SocketClosedUnexpectedlyError(),
    new DisconnectsClientError(),
    Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }),
    Object.assign(new Error('EPROTO by TLS'), { code: 'EPROTO' }),
  ])('is a lost connection, whose command may have arrived: %s', (error) => {
    const told = errorOfCommand(error);
    expect([isLost(told), isUnsent(told), isRetryable(told)]).toEqual([true, false, true]);
    expect(told.cause).toBe(error);
  });

  it.each([new ClientClosedError(), new ClientOfflineError(), new Error('The command was aborted')])(
    'is a command that was not sent, and is never sent: %s',
    (error) => {
      const told = errorOfCommand(error);
      expect([isLost(told), isUnsent(told), isRetryable(told)]).toEqual([true, true, true]);
    },
  );

  it('of a full queue reports that, and is not a loss', () => {
    const told = errorOfCommand(new Error('The queue is full'));
    expect(told.message).toBe('The queue is full');
    expect([isLost(told), isRetryable(told)]).toEqual([false, true]);
  });

  it('of a connection keeps its text, and its name shows whether the server sent it', () => {
    expect(errorOfConnection(new SimpleError('WRONGPASS invalid'))).toMatchObject({ name: 'ReplyError' });
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    expect(errorOfConnection(refused)).toBe(refused);
    expect(refused.name).toBe('Error');
    // By the credentials provider of the application.
    const thrown = new Error('HTTP 503 from the token service');
    expect([errorOfConnection(thrown), thrown.name]).toEqual([thrown, 'Error']);
    expect(errorOfConnection(new ConnectionTimeoutError())).toMatchObject({ message: 'connect ETIMEDOUT' });
    expect(errorOfConnection(new SocketClosedUnexpectedlyError())).toBeUndefined();
  });
});
