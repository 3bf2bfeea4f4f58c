import { of } from 'rxjs';

/** An Observable as of another copy of rxjs, whose operators are not ours. */
export const ofOtherRxjs = (...values: readonly unknown[]): object => ({
  pipe() {
    throw new Error('An operator of this copy was given to another.');
  },
  subscribe: (observer: never) => of(...values).subscribe(observer),
});
