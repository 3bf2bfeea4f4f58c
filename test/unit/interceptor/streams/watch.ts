import { type Observable, type Subscription } from 'rxjs';

/** What a subscriber received: values, `'complete'` and `['error', error]`. */
export interface Watch {
  readonly told: unknown[];
  readonly subscription: Subscription;
}

export function watch(source: Observable<unknown>): Watch {
  const told: unknown[] = [];
  const subscription = source.subscribe({
    next: (value) => told.push(value),
    error: (error: unknown) => told.push(['error', error]),
    complete: () => told.push('complete'),
  });
  return { told, subscription };
}
