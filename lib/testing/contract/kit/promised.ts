import assert from 'node:assert/strict';
import { inspect } from 'node:util';

/** Fails with the expectation in words, and with the actual value. */
export function promised(isKept: unknown, expectation: string, got?: unknown): asserts isKept {
  const instead = got === undefined ? '' : `, got ${inspect(got, { breakLength: Infinity })}`;
  assert.ok(isKept, `Expected ${expectation}${instead}.`);
}

/** Fails unless two values are deeply equal. */
export function same(actual: unknown, expected: unknown, what: string): void {
  assert.deepEqual(actual, expected, `Expected ${what} to be ${inspect(expected)}, got ${inspect(actual)}.`);
}
