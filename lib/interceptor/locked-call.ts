import { type LockOptions } from '../core/lock.options.js';
import { type LockedOptions } from './locked.options.js';
import { type ResultKind } from './streams/stream-kind.js';

/** What a decorator found out when the class was defined. */
export interface LockedCall {
  /** Class and method, for people. */
  readonly where: string;
  /** The key template, or what stands for it. */
  readonly template: string;
  readonly keyOf: (self: unknown, args: readonly unknown[]) => string | readonly string[];
  /** What a call returns in its own turn. */
  readonly kind: ResultKind;
  readonly name: string | symbol;
  /** The locked method, with all metadata of the decorated one; of a request, its handler. */
  readonly method: Function;
  readonly options: LockedOptions & Pick<LockOptions, 'mode'>;
}
