import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Sources, importCycles, indexViolations, layerViolations, longFiles, longFunctions } from './rules.js';

const root = join(import.meta.dirname, '..', '..');

function sourcesOf(folder: string): Sources {
  const files = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  );
  return new Map(files.sort().map((file) => [file, readFileSync(join(root, folder, file), 'utf8')]));
}

const planted = (sources: Record<string, string>): Sources => new Map(Object.entries(sources));
const linesOf = (count: number) => 'x;\n'.repeat(count);

describe('lib', () => {
  const lib = sourcesOf('lib');

  it('is read from disk', () => expect(lib.size).toBeGreaterThan(5));
  it('imports along the direction of its layers', () => expect(layerViolations(lib)).toEqual([]));
  it.each(['index.ts', 'redis/scripts/index.ts', 'testing/index.ts'])(
    'has an %s that only re-exports by name',
    (path) => {
      expect(indexViolations(lib, path)).toEqual([]);
    },
  );
  it('has no import cycles', () => expect(importCycles(lib)).toEqual([]));
  it('has no file over 250 lines', () => expect(longFiles(lib, 250)).toEqual([]));
  it('has no function over 40 lines', () => expect(longFunctions(lib, 40)).toEqual([]));
});

describe('sample-app', () => {
  const app = sourcesOf('sample-app/src');

  it('has no file over 250 lines', () => expect(longFiles(app, 250)).toEqual([]));
  it('has no function over 40 lines', () => expect(longFunctions(app, 40)).toEqual([]));
});

describe('the rule of the layers', () => {
  const refused: [file: string, statement: string, target: string][] = [
    ['core/a.ts', `import { B } from '../redis/b.js';`, 'redis/b.ts'],
    ['core/a.ts', `import type { B } from '../redis/b.js';`, 'redis/b.ts'],
    ['core/a.ts', `export * from '../decorators/b.js';`, 'decorators/b.ts'],
    ['core/a.ts', `import { Injectable } from '@nestjs/common';`, '@nestjs/common'],
    ['core/a.ts', `import { Redis } from 'ioredis';`, 'ioredis'],
    ['core/a.ts', `import { A } from '../redis-lock.options.js';`, 'redis-lock.options.ts'],
    ['core/a.ts', `const b = await import('../redis/b.js');`, 'redis/b.ts'],
    ['core/a.ts', `type B = import('../redis/b.js').B;`, 'redis/b.ts'],
    ['core/a.ts', `import pkg from '../../package.json';`, '../package.json'],
    ['core/a.ts', `import { b } from '../corelike/b.js';`, 'corelike/b.ts'],
    ['redis/a.ts', `import { Injectable } from '@nestjs/common';`, '@nestjs/common'],
    ['redis/scripts/a.ts', `import { B } from '../../interceptor/b.js';`, 'interceptor/b.ts'],
    ['redis/a.ts', `import { S } from '../redis-lock.service.js';`, 'redis-lock.service.ts'],
    ['interceptor/a.ts', `import { B } from '../redis/b.js';`, 'redis/b.ts'],
    ['interceptor/a.ts', `import { B } from '../decorators/b.js';`, 'decorators/b.ts'],
    ['interceptor/a.ts', `import { Redis } from 'ioredis';`, 'ioredis'],
    ['decorators/a.ts', `import { B } from '../redis/b.js';`, 'redis/b.ts'],
    ['decorators/a.ts', `import { B } from '../redis-lock.service.js';`, 'redis-lock.service.ts'],
    ['redis-lock.service.ts', `import { B } from './redis/b.js';`, 'redis/b.ts'],
    ['redis-lock.tokens.ts', `import { B } from './decorators/b.js';`, 'decorators/b.ts'],
    ['redis-lock.options.ts', `import { B } from './redis/b.js';`, 'redis/b.ts'],
    ['redis-lock.module.ts', `import { B } from './index.js';`, 'index.ts'],
    ['testing/a.ts', `import { B } from '../redis/b.js';`, 'redis/b.ts'],
  ];

  it.each(refused)('refuses in %s: %s', (file, statement, target) => {
    expect(layerViolations(planted({ [file]: statement }))).toEqual([`${file} must not import ${target}`]);
  });

  const accepted: [file: string, statement: string][] = [
    ['core/a.ts', `import { randomUUID } from 'node:crypto'; import { b } from './b.js';`],
    ['redis/scripts/a.ts', `import { Redis } from 'ioredis'; import { b } from '../../core/b.js'; import './c.js';`],
    ['interceptor/a.ts', `import { of } from 'rxjs'; import { S } from '../redis-lock.service.js';`],
    ['decorators/a.ts', `import { I } from '../interceptor/i.js'; import { Inject } from '@nestjs/common';`],
    ['redis-lock.options.ts', `import type { B } from './redis/b.js';`],
    ['redis-lock.module.ts', `import { B } from './redis/b.js'; import { D } from './decorators/d.js';`],
    ['index.ts', `export { B } from './redis/b.js';`],
  ];

  it.each(accepted)('accepts in %s: %s', (file, statement) => {
    expect(layerViolations(planted({ [file]: statement }))).toEqual([]);
  });

  it('wants a rule for each folder', () => {
    expect(layerViolations(planted({ 'utils/a.ts': '' }))).toEqual(['utils/a.ts: no rule for this folder']);
  });
});

describe('the rule of the index', () => {
  it.each([
    `export * from './a.js';`,
    `export * as a from './a.js';`,
    `import { a } from './a.js';`,
    `export const a = 1;`,
    `export {};`,
  ])('refuses %s', (statement) => {
    expect(indexViolations(planted({ 'index.ts': statement }))).toEqual([`index.ts: ${statement}`]);
  });

  it('wants one', () => expect(indexViolations(planted({}))).toEqual(['index.ts is missing']));

  it('accepts exports by name', () => {
    const text = `/** Doc. */\nexport { a } from './a.js';\nexport type { B } from './b.js';`;
    expect(indexViolations(planted({ 'index.ts': text }))).toEqual([]);
  });
});

describe('the rule of the cycles', () => {
  it('finds one of three files, once', () => {
    const sources = planted({
      'core/a.ts': `import { b } from './b.js';`,
      'core/b.ts': `export { c } from '../redis/c.js';`,
      'redis/c.ts': `import { type A, a } from '../core/a.js';`,
      'core/d.ts': `import { a } from './a.js';`,
    });
    expect(importCycles(sources)).toEqual(['core/a.ts -> core/b.ts -> redis/c.ts -> core/a.ts']);
  });

  it('finds a file that imports itself', () => {
    expect(importCycles(planted({ 'a.ts': `import './a.js';` }))).toEqual(['a.ts -> a.ts']);
  });

  it('passes over imports that are gone at run time', () => {
    const sources = planted({ 'a.ts': `import type { B } from './b.js';`, 'b.ts': `import { a } from './a.js';` });
    expect(importCycles(sources)).toEqual([]);
  });
});

describe('the rule of the sizes', () => {
  it('finds a long file', () => {
    const sources = planted({ 'a.ts': linesOf(250), 'b.ts': linesOf(251) });
    expect(longFiles(sources, 250)).toEqual(['b.ts: 251 lines']);
  });

  it.each([
    ['a function', `function f() {\n${linesOf(39)}}`],
    ['an arrow function', `const f = () => {\n${linesOf(39)}};`],
    ['a method', `class A { f() {\n${linesOf(39)}} }`],
    ['a constructor', `class A { constructor() {\n${linesOf(39)}} }`],
    ['an accessor', `class A { get f() {\n${linesOf(39)}} }`],
  ])('finds %s that is long', (_kind, text) => {
    expect(longFunctions(planted({ 'a.ts': text }), 40)).toEqual(['a.ts:1: a function of 41 lines']);
    expect(longFunctions(planted({ 'a.ts': text.replace('x;\n', '') }), 40)).toEqual([]);
  });

  it('does not count the lines of a script', () => {
    const script = `lua\`\n${linesOf(50)}\${lua\`\n${linesOf(50)}\`}\``;
    const text = (rest: number) => `const f = () => {\n${linesOf(rest - 3)}return ${script};\n};`;
    expect(longFunctions(planted({ 'a.ts': text(40) }), 40)).toEqual([]);
    expect(longFunctions(planted({ 'a.ts': text(41) }), 40)).toEqual(['a.ts:1: a function of 41 lines']);
  });
});
