import assert from 'node:assert/strict';
import { inspect } from 'node:util';

/** Fails with the expectation in words, and with what was there instead. */
export function promised(isKept: unknown, expectation: string, got?: unknown): asserts isKept {
  const instead = got === undefined ? '' : `, got ${inspect(got, { breakLength: Infinity })}`;
  assert.ok(isKept, `Expected ${expectation}${instead}.`);
}

/** As `promised`, of two values that are to be the same. */
export function same(actual: unknown, expected: unknown, what: string): void {
  assert.deepEqual(actual, expected, `Expected ${what} to be ${inspect(expected)}, got ${inspect(actual)}.`);
}
