import { isWellFormed } from '../core/lock-key.js';
import { LockKeyError } from '../core/lock.errors.js';

/** A key template that was parsed once: `'order:<0.id>'` filled with `[{ id: 'A-17' }]` is `'order:A-17'`. */
export interface KeyTemplate {
  /** The template as it was written. */
  readonly text: string;
  /** Gives the key for the arguments of one call, or throws `LockKeyError` where a placeholder cannot be filled. */
  fill(args: readonly unknown[]): string;
}

interface Placeholder {
  /** What stands between `<` and `>`: `0.id`. */
  readonly name: string;
  readonly path: readonly string[];
  /** The literal text up to the next placeholder or the end. */
  textAfter: string;
}

type Fault = (problem: string) => LockKeyError;

const TOKEN = /<<|<(?<name>[^>]*)>|<|[^<]+/gu;
const PLACEHOLDER = /^(?:0|[1-9]\d*)(?:\.[^.<>\s]+)*$/u;
const NO_PLACEHOLDER =
  "is no placeholder; expected the index of an argument, then properties after dots, as in '<0>' or '<0.id>' " +
  "('<<' stands for a literal '<')";

/** Which character ends a value, the most welcome first; never one of which percent codes are made (`%`, 0-9, A-F). */
const DELIMITERS = [/:/u, /[^\p{L}\p{N}%]/u, /[^0-9A-F%]/u];

/**
 * Parses a key template; a bad one throws `LockKeyError`, with `where` (such as `OrdersService.charge`) in front.
 *
 * - `<0>` is the first argument, `<1.address.city>` a property of the second, `<<` a literal `<`.
 * - A value is a non-empty string, a finite number, a bigint or a boolean. The number 1 and the string '1' give one key,
 *   and so do `true` and 'true'; otherwise two different lists of values never give the same key of a template.
 * - For that, `%` and `:` inside a value become `%25` and `%3A`. Where the text between two placeholders has no `:`, its
 *   first character that is no letter or digit is encoded too: `a-<0>-<1>` writes a `-` inside a value as `%2D`.
 *   Where it has only letters and digits, the first one that is not 0-9 or A-F is: the `x` of `<0>x<1>`.
 * - Placeholders with nothing between them, or nothing but `%`, 0-9 and A-F, are refused, since no encoding separates them.
 */
export function parseKeyTemplate(template: string, where?: string): KeyTemplate {
  const prefix = where === undefined ? '' : `${where}: `;
  if (typeof template !== 'string' || template === '') {
    const expected = "expected a text that names what is protected; write one, such as 'order:<0.id>'";
    throw new LockKeyError(`${prefix}the key template is ${describe(template)}, ${expected}.`);
  }
  const fault: Fault = (problem) =>
    new LockKeyError(`${prefix}key template '${template}': ${problem}.`, { key: template });
  if (!isWellFormed(template)) throw fault('it has a lone surrogate; expected well-formed text, so remove it');
  const { textBefore, placeholders } = split(template, fault);
  const encode = encoder(delimitersBetween(placeholders, fault));
  const fill = (args: readonly unknown[]): string =>
    placeholders.reduce((key, hole) => key + encode(textOf(hole, args, fault)) + hole.textAfter, textBefore);
  return { text: template, fill };
}

function split(template: string, fault: Fault): { textBefore: string; placeholders: Placeholder[] } {
  const placeholders: Placeholder[] = [];
  let textBefore = '';
  for (const { 0: token, index, groups } of template.matchAll(TOKEN)) {
    const name = groups?.['name'];
    const last = placeholders.at(-1);
    if (name !== undefined) {
      if (!PLACEHOLDER.test(name)) throw fault(`'${token}' ${NO_PLACEHOLDER}`);
      placeholders.push({ name, path: name.split('.'), textAfter: '' });
    } else if (token === '<') {
      throw fault(`'${template.slice(index)}' is not closed; add the '>', or write '<<' for a literal '<'`);
    } else {
      const text = token === '<<' ? '<' : token;
      if (last) last.textAfter += text;
      else textBefore += text;
    }
  }
  return { textBefore, placeholders };
}

/** The characters by which the end of every value but the last is found, and which values must therefore not contain. */
function delimitersBetween(placeholders: readonly Placeholder[], fault: Fault): string[] {
  return placeholders.slice(0, -1).map(({ name, textAfter }, index) => {
    const found = DELIMITERS.map((kind) => kind.exec(textAfter)?.[0]).find((char) => char !== undefined);
    if (found !== undefined) return found;
    const pair = `<${name}> and <${placeholders[index + 1]?.name}>`;
    const between = textAfter === '' ? `nothing separates ${pair}` : `'${textAfter}' does not separate ${pair}`;
    throw fault(`${between}, so different arguments could give one key; write ':' between them`);
  });
}

function encoder(delimiters: readonly string[]): (value: string) => string {
  const codes = new Set(['%', ':', ...delimiters].map((char) => `\\u{${char.codePointAt(0)?.toString(16)}}`));
  const encoded = new RegExp(`[${[...codes].join('')}]`, 'gu');
  return (value) => value.replace(encoded, percentCode);
}

function percentCode(char: string): string {
  return Buffer.from(char).toString('hex').toUpperCase().replace(/../gu, '%$&');
}

function textOf({ name, path }: Placeholder, args: readonly unknown[], fault: Fault): string {
  let value: any = args;
  for (const [depth, step] of path.entries()) {
    if (value === undefined || value === null) {
      throw fault(`<${name}> cannot be read, since <${path.slice(0, depth).join('.')}> is ${value}; ${fixFor(value)}`);
    }
    value = value[step];
  }
  if (isKeyPart(value)) return String(value);
  const expected = 'expected a non-empty string, a finite number, a bigint or a boolean';
  throw fault(`<${name}> is ${describe(value)}, ${expected}; ${fixFor(value)}`);
}

function isKeyPart(value: unknown): value is string | number | bigint | boolean {
  if (typeof value === 'string') return value !== '' && isWellFormed(value);
  return Number.isFinite(value) || typeof value === 'bigint' || typeof value === 'boolean';
}

/** What was found, by its kind only: values may be private, and an error text ends in logs. */
function describe(value: unknown): string {
  if (typeof value === 'string') return value === '' ? 'an empty string' : 'a string with a lone surrogate';
  if (typeof value === 'symbol' || typeof value === 'function') return `a ${typeof value}`;
  if (typeof value !== 'object' || value === null) return String(value);
  // From the prototype, because an own `constructor` may come from a request body.
  const type: unknown = Object.getPrototypeOf(value)?.constructor?.name;
  return typeof type === 'string' && type !== '' ? `an object (${type})` : 'an object';
}

function fixFor(value: unknown): string {
  if (value === undefined || value === null) {
    return 'pass it (a default value of a parameter is not seen here), or use a key function';
  }
  if (typeof value === 'object') return "name one of its properties, as in '<0.id>', or use a key function";
  return 'pass such a value, or use a key function';
}
