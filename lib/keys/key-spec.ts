import { LockKeyError } from '../core/lock.errors.js';
import { isWellFormed } from '../core/key.js';
import { shortened } from '../core/read-options.js';
import { describeValue, EXPECTED_PART, isKeyPart, type KeyPart, valueEncoder } from './lock-key.js';

/** Returns the key, or the keys, for the arguments of a call; called with `this` = the instance. Its errors are passed through unchanged. */
export type KeyFunction = (...args: any[]) => string | readonly string[];

/** The key of a decorator: a key template, several of them, or a key function. */
export type KeySpec = string | readonly string[] | KeyFunction;

/** Returns the key, or the keys, of one call of a method on `self`. */
export type KeyOfCall = (self: unknown, args: readonly unknown[]) => string | readonly string[];

/** Compiles the key of the method `where` (such as `OrdersService.charge`) once; every `LockKeyError` names it. */
export function compileKeySpec(spec: KeySpec, where: string): KeyOfCall {
  if (typeof spec === 'function') {
    return (self, args) => checkedKeys(spec.apply(self, [...args]), where);
  }
  if (isList(spec)) {
    if (spec.length === 0) {
      throw new LockKeyError(`${where}: the list of keys is empty, expected at least one; add a key template to it.`);
    }
    const templates = Array.from(spec, (template) => parseKeyTemplate(template, where));
    return (_self, args) => templates.map((fill) => fill(args));
  }
  const fill = parseKeyTemplate(spec, where);
  return (_self, args) => fill(args);
}

/** Names a key without the values of a call, so that it can label metrics: `'order:<0.id>'`. */
export function describeKeySpec(spec: KeySpec): string {
  if (typeof spec === 'function') return spec.name || 'key function';
  return isList(spec) ? spec.join(', ') : spec;
}

function checkedKeys(result: string | readonly string[], where: string): string | readonly string[] {
  if (isKey(result)) return result;
  if (isList(result)) {
    // A copy, because the caller's array may change while the call waits for its lock; it also turns holes into undefined.
    const keys = [...result];
    if (keys.length > 0 && keys.every(isKey)) return keys;
  }
  throw new LockKeyError(
    `${where}: the key function returned ${describeResult(result)}, expected a non-empty string or a non-empty list ` +
      'of them; return the key itself (a key function cannot be async).',
  );
}

const isKey = (value: unknown): value is string => typeof value === 'string' && value !== '';

const isList = (value: string | readonly string[]): value is readonly string[] => Array.isArray(value);

/** Describes only the kind of a result: keys may contain private values, and error texts end up in logs. */
function describeResult(result: unknown): string {
  if (!Array.isArray(result)) return describeKind(result);
  if (result.length === 0) return 'an empty list';
  const items: unknown[] = [...result];
  const index = items.findIndex((item) => !isKey(item));
  return `a list whose item ${index} is ${describeKind(items[index])}`;
}

function describeKind(value: unknown): string {
  if (value === '') return 'an empty string';
  if (value === null || value === undefined) return String(value);
  if (value instanceof Promise) return 'a promise';
  return Array.isArray(value) ? 'a list' : `a value of type ${typeof value}`;
}

/**
 * Returns the key for the arguments of one call: `'order:<0.id>'` filled with `[{ id: 'A-17' }]` is `'order:A-17'`. Errors of
 * getters of the application are passed through unchanged, as those of a key function are.
 * @throws LockKeyError if a placeholder cannot be filled
 */
type FillTemplate = (args: readonly unknown[]) => string;

interface Placeholder {
  /** The text between `<` and `>`: `0.id`. */
  readonly name: string;
  readonly path: readonly string[];
  /** The literal text up to the next placeholder or the end. */
  textAfter: string;
}

type ErrorFor = (problem: string) => LockKeyError;

const TOKEN = /<<|<(?<name>[^>]*)>|<|[^<]+/gu;
const PLACEHOLDER = /^(?:0|[1-9]\d*)(?:\.[^.<>\s]+)*$/u;
const NO_PLACEHOLDER =
  "is not a placeholder; expected the index of an argument, then properties after dots, as in '<0>' or '<0.id>' " +
  "('<<' stands for a literal '<')";

/** Placeholders of other libraries, which would remain unfilled: `${id}`, `{0}`, `#{id}`. */
const BRACES = /[$#]?\{[^{}]*\}|[{}]/u;

/**
 * Parses a key template. Error texts begin with `where`, such as `OrdersService.charge`.
 *
 * - `<0>` is the first argument, `<1.address.city>` a property of the second, `<<` a literal `<`.
 * - A value is a non-empty string, a finite number, a bigint or a boolean. The number 1 and the string '1' make the same
 *   key, and so do `true` and 'true'; otherwise two different lists of values never make the same key of a template.
 * - For that, the values of several placeholders are encoded (`valueEncoder`), and placeholders with nothing between them are
 *   refused. The value of a single placeholder stays as it is.
 * - Braces are refused: a text that only looks like a placeholder would make the same key for all calls.
 */
export function parseKeyTemplate(template: string, where?: string): FillTemplate {
  const prefix = where === undefined ? '' : `${where}: `;
  if (typeof template !== 'string' || template === '') {
    const expected = "expected a text that names the protected resource; write one, such as 'order:<0.id>'";
    throw new LockKeyError(`${prefix}the key template is ${describeValue(template)}, ${expected}.`);
  }
  const errorFor: ErrorFor = (problem) =>
    new LockKeyError(`${prefix}key template '${shortened(template)}': ${problem}.`, { key: template });
  if (!isWellFormed(template)) throw errorFor('it has a lone surrogate; expected well-formed text, so remove it');
  refuseBraces(template, errorFor);
  const { textBefore, placeholders } = split(template, errorFor);
  const encode = encoderOf(placeholders, errorFor);
  return (args) =>
    placeholders.reduce((key, hole) => key + encode(valueOf(hole, args, errorFor)) + hole.textAfter, textBefore);
}

function split(template: string, errorFor: ErrorFor): { textBefore: string; placeholders: Placeholder[] } {
  const placeholders: Placeholder[] = [];
  let textBefore = '';
  for (const { 0: token, index, groups } of template.matchAll(TOKEN)) {
    const name = groups?.['name'];
    const last = placeholders.at(-1);
    if (name !== undefined) {
      if (!PLACEHOLDER.test(name)) throw errorFor(`'${token}' ${NO_PLACEHOLDER}`);
      placeholders.push({ name, path: name.split('.'), textAfter: '' });
    } else if (token === '<') {
      throw errorFor(`'${template.slice(index)}' is not closed; add the '>', or write '<<' for a literal '<'`);
    } else {
      const text = token === '<<' ? '<' : token;
      if (last) last.textAfter += text;
      else textBefore += text;
    }
  }
  return { textBefore, placeholders };
}

function refuseBraces(template: string, errorFor: ErrorFor): void {
  const braces = BRACES.exec(template)?.[0];
  if (braces === undefined) return;
  throw errorFor(
    `'${braces}' fills nothing; write '<0>' for the first argument, '<0.id>' for a property of it, or use a key function ` +
      'for a key with braces',
  );
}

function encoderOf(placeholders: readonly Placeholder[], errorFor: ErrorFor): (value: KeyPart) => string {
  const names = placeholders.map(({ name }) => `<${name}>`);
  const between = placeholders.slice(0, -1).map(({ textAfter }) => textAfter);
  return valueEncoder(names, between, (problem) =>
    errorFor(`${problem}, so different arguments could give one key; write ':' between them`),
  );
}

function valueOf({ name, path }: Placeholder, args: readonly unknown[], errorFor: ErrorFor): KeyPart {
  let value: any = args;
  for (const [depth, step] of path.entries()) {
    if (value === undefined || value === null) {
      throw errorFor(
        `<${name}> cannot be read, since <${path.slice(0, depth).join('.')}> is ${value}; ${fixFor(value)}`,
      );
    }
    value = value[step];
  }
  if (isKeyPart(value)) return value;
  throw errorFor(`<${name}> is ${describeValue(value)}, ${EXPECTED_PART}; ${fixFor(value)}`);
}

function fixFor(value: unknown): string {
  if (value === undefined || value === null) {
    return 'pass it (a default value of a parameter is not seen here), or use a key function';
  }
  if (typeof value === 'object') return "name one of its properties, as in '<0.id>', or use a key function";
  return 'pass such a value, or use a key function';
}
