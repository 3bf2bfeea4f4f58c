// Methods with decorators, which are applied by hand: this file is not compiled.
import 'reflect-metadata';
import { Limited, Locked, ReadLocked, WriteLocked, currentLock } from '../../../../dist/esm/index.js';
import { Observable, defer } from 'rxjs';
import { DECORATED_OPTIONS } from '../decorated-options.mjs';

/** Each method runs the work under the lock of its key. */
export class Decorated {
  write(_key, work) {
    return work(currentLock());
  }

  read(_key, work) {
    return work(currentLock());
  }

  writeOfRead(_key, work) {
    return work(currentLock());
  }

  limited(_key, work) {
    return work(currentLock());
  }

  async *iterable(_key, work) {
    yield await work(currentLock());
  }

  observable(_key, work) {
    return defer(() => work(currentLock()));
  }
}

Reflect.defineMetadata('design:returntype', Observable, Decorated.prototype, 'observable');
decorate(Decorated, {
  write: Locked('<0>', DECORATED_OPTIONS),
  read: ReadLocked('<0>', DECORATED_OPTIONS),
  writeOfRead: WriteLocked('<0>', DECORATED_OPTIONS),
  limited: Limited('<0>', 2, DECORATED_OPTIONS),
  iterable: Locked('<0>', DECORATED_OPTIONS),
  observable: Locked('<0>', DECORATED_OPTIONS),
});

/** Applies decorators to the methods with these names. */
export function decorate(type, decorators) {
  for (const [name, decorator] of Object.entries(decorators)) {
    const descriptor = Object.getOwnPropertyDescriptor(type.prototype, name);
    decorator(type.prototype, name, descriptor);
    Object.defineProperty(type.prototype, name, descriptor);
  }
}
