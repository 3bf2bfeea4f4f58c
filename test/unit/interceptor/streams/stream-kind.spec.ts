import { Readable, Writable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import { StreamableFile } from '@nestjs/common';
import { Observable, Subject, of } from 'rxjs';
import { LockConfigurationError } from '../../../../lib/core/lock.errors.js';
import { refuseStream, resultKindOf } from '../../../../lib/interceptor/streams/stream-kind.js';

describe('the result that a call returns at once', () => {
  const plain = (): void => {};

  it.each([
    ['an async generator', async function* () {}, Object, 'async-iterable'],
    ['an async generator that declares an Observable', async function* () {}, Observable, 'async-iterable'],
    ['a proxy of an async generator', new Proxy(async function* () {}, {}), Object, 'async-iterable'],
    ['an async function', async () => {}, Promise, 'promise'],
    ['an async function that declares an Observable', async () => {}, Observable, 'promise'],
    ['a function that returns an Observable', plain, Observable, 'observable'],
    ['a function that returns a Subject', plain, Subject, 'observable'],
    ['a function that returns a promise', plain, Promise, 'promise'],
    ['a function that returns a stream', plain, Readable, 'promise'],
    ['a function of unknown result', plain, undefined, 'promise'],
    ['a function whose class was not there yet', plain, null, 'promise'],
    ['a function whose result is an arrow function', plain, () => {}, 'promise'],
  ])('is classified: %s', (_what, method, returnType, kind) => {
    expect(resultKindOf(method, returnType)).toBe(kind);
  });
});

/** An object that throws when it is asked for what it does not have, as strict mocks do. */
const strict = new Proxy(
  {},
  {
    get: (_target, name) => {
      throw new Error(`There is no ${String(name)}.`);
    },
  },
);

/** Like auto-mocks of tests. Its `then` is not a method, or it could not be awaited. */
const mock = new Proxy({}, { get: (_target, name) => (name === 'then' ? undefined : () => mock) });

describe('a stream', () => {
  const foreign = { subscribe: () => {}, [Symbol.observable ?? '@@observable']: () => foreign };

  it.each([
    ['a Node stream', Readable.from(['a'])],
    ['a Node stream', new Writable()],
    ['a ReadableStream', new ReadableStream()],
    ['a StreamableFile', new StreamableFile(Buffer.from('a'))],
    ['an observable of another library', foreign],
  ])('is refused: %s', (kind, result) => {
    const refuse = () => refuseStream(result, 'Files.read');
    expect(refuse).toThrow(LockConfigurationError);
    expect(refuse).toThrow(
      `Files.read is locked and returned ${kind}, which continues after the lock is released. ` +
        'Return an Observable of rxjs, an async iterable (`async function*`), or a promise of the whole result.',
    );
  });

  it('is closed when it is refused, unless it can only be written, since others may use it', () => {
    const [source, sink] = [Readable.from(['a']), new Writable()];
    for (const stream of [source, sink]) expect(() => refuseStream(stream, 'Files.read')).toThrow();
    expect([source.destroyed, sink.destroyed]).toEqual([true, false]);
  });

  it('is refused even when it cannot be closed', () => {
    const reading = new ReadableStream();
    reading.getReader();
    expect(() => refuseStream(reading, 'Files.read')).toThrow(LockConfigurationError);
  });

  it.each([
    ['undefined', undefined],
    ['null', null],
    ['an object', { pipe: 'no function', on: true }],
    ['an object that throws when a missing property is read', strict],
    ['a mock, which answers to each name', mock],
    ['a client that subscribes', { subscribe: () => {}, on: () => {} }],
    ['an Observable', of(1)],
    ['an Observable that has an `on`', Object.assign(of(1), { on: () => {} })],
    ['an async iterable', (async function* () {})()],
  ])('is not %s', (_what, result) => {
    expect(() => refuseStream(result, 'Files.read')).not.toThrow();
  });
});
