import { of } from 'rxjs';

/** An Observable as from another copy of rxjs, whose operators must not be used. */
export const ofOtherRxjs = (...values: readonly unknown[]): object => ({
  pipe() {
    throw new Error('An operator of this copy was given to another.');
  },
  subscribe: (observer: never) => of(...values).subscribe(observer),
});
