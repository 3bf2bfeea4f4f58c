import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Sources, filesWithRefusedGlobals, refusedImports, refusedSizes, root } from './planted.js';
import { indexViolations } from './rules.js';

// `npm run lint` applies .dependency-cruiser.mjs and .oxlintrc.json to lib. These are the violations that they must find.

const linesOf = (count: number) => 'x;\n'.repeat(count);

describe('an index', () => {
  const planted = (sources: Sources) => new Map(Object.entries(sources));

  it.each(['index.ts', 'store.ts', 'testing/index.ts', 'board/index.ts'])(
    'of lib, %s, only re-exports by name',
    (path) => {
      const text = readFileSync(join(root, 'lib', path), 'utf8');
      expect(indexViolations(planted({ [path]: text }), path)).toEqual([]);
    },
  );

  it.each([
    `export * from './a.js';`,
    `export * as a from './a.js';`,
    `import { a } from './a.js';`,
    `export const a = 1;`,
    `export {};`,
  ])('must not contain %s', (statement) => {
    expect(indexViolations(planted({ 'index.ts': statement }))).toEqual([`index.ts: ${statement}`]);
  });

  it('has to be there', () => expect(indexViolations(planted({}))).toEqual(['index.ts is missing']));

  it('may export by name', () => {
    const text = `/** Doc. */\nexport { a } from './a.js';\nexport type { B } from './b.js';`;
    expect(indexViolations(planted({ 'index.ts': text }))).toEqual([]);
  });
});

const target = 'export const b = 1;\nexport type B = 1;\n';
/** The files that the planted ones import. */
const TARGETS: Sources = {
  'core/b.ts': target,
  'redis/b.ts': target,
  'redis/scripts/c.ts': target,
  'corelike/b.ts': target,
  'interceptor/b.ts': target,
  'decorators/b.ts': target,
  'redis-lock.service.ts': target,
  'redis-lock.options.ts': target,
  'index.ts': target,
};

const REFUSED: [file: string, statement: string, target: string][] = [
  ['core/1.ts', `import { B } from '../redis/b.js';`, '../redis/b.js'],
  ['core/2.ts', `import type { B } from '../redis/b.js';`, '../redis/b.js'],
  ['core/3.ts', `export * from '../decorators/b.js';`, '../decorators/b.js'],
  ['core/4.ts', `import { Injectable } from '@nestjs/common';`, '@nestjs/common'],
  ['core/5.ts', `import { Redis } from 'ioredis';`, 'ioredis'],
  ['core/6.ts', `import { A } from '../redis-lock.options.js';`, '../redis-lock.options.js'],
  ['core/7.ts', `const b = await import('../redis/b.js');`, '../redis/b.js'],
  ['core/8.ts', `type B = import('../redis/b.js').B;`, '../redis/b.js'],
  ['core/9.ts', `import pkg from '../../package.json';`, '../../package.json'],
  ['core/10.ts', `import { b } from '../corelike/b.js';`, '../corelike/b.js'],
  ['core/11.ts', `import { b } from '../nowhere/b.js';`, '../nowhere/b.js'],
  ['redis/1.ts', `import { Injectable } from '@nestjs/common';`, '@nestjs/common'],
  ['redis/scripts/2.ts', `import { B } from '../../interceptor/b.js';`, '../../interceptor/b.js'],
  ['redis/3.ts', `import { S } from '../redis-lock.service.js';`, '../redis-lock.service.js'],
  ['redis/4.ts', `import { Redis } from 'ioredis';`, 'ioredis'],
  ['memory/1.ts', `import { B } from '../redis/b.js';`, '../redis/b.js'],
  ['memory/2.ts', `import { Injectable } from '@nestjs/common';`, '@nestjs/common'],
  ['interceptor/1.ts', `import { B } from '../redis/b.js';`, '../redis/b.js'],
  ['interceptor/2.ts', `import { B } from '../decorators/b.js';`, '../decorators/b.js'],
  ['interceptor/3.ts', `import { Redis } from 'ioredis';`, 'ioredis'],
  ['interceptor/4.ts', `import { b } from '../redis-lock.options.js';`, '../redis-lock.options.js'],
  ['decorators/1.ts', `import { B } from '../redis/b.js';`, '../redis/b.js'],
  ['decorators/2.ts', `import { B } from '../redis-lock.service.js';`, '../redis-lock.service.js'],
  ['redis-lock.service.ts', `import { B } from './redis/b.js';`, './redis/b.js'],
  ['redis-lock.tokens.ts', `import { B } from './decorators/b.js';`, './decorators/b.js'],
  ['redis-lock.options.ts', `import type { B } from './redis/b.js'; import { b } from './redis/b.js';`, './redis/b.js'],
  ['redis-lock.module.ts', `import { B } from './index.js';`, './index.js'],
  ['testing/1.ts', `import { B } from '../redis/b.js';`, '../redis/b.js'],
  // A new folder needs a rule.
  ['utils/1.ts', `import { b } from '../core/b.js';`, '../core/b.js'],
];

const CYCLES: Sources = {
  'core/round-a.ts': `import { b } from './round-b.js';`,
  'core/round-b.ts': `export { c } from '../redis/round-c.js';`,
  'redis/round-c.ts': `import { type A, a } from '../core/round-a.js';`,
  'core/outside.ts': `import { a } from './round-a.js';`,
  'core/self.ts': `import './self.js';`,
  'core/typed-a.ts': `import type { B } from './typed-b.js';`,
  'core/typed-b.ts': `import { a } from './typed-a.js';`,
};

let found: readonly string[];
beforeAll(async () => {
  const refused = Object.fromEntries(REFUSED.map(([file, statement]) => [file, statement]));
  found = await refusedImports({ ...TARGETS, ...CYCLES, ...refused });
}, 60_000);

describe('the rule of the layers', () => {
  it.each(REFUSED)('refuses in %s: %s', (file, _statement, target) => {
    expect(found.filter((violation) => violation.includes(` lib/${file} `))).toEqual([
      `not-in-allowed: lib/${file} imports ${target}`,
    ]);
  });

  it('accepts the allowed directions', async () => {
    const accepted: Sources = {
      'core/1.ts': `import { randomUUID } from 'node:crypto'; import { b } from './b.js';`,
      'redis/client/ioredis/1.ts': `import { Redis } from 'ioredis';`,
      'redis/scripts/1.ts': `import { b } from '../../core/b.js'; import './c.js';`,
      'memory/1.ts': `import { b } from '../core/b.js'; import { setImmediate } from 'node:timers';`,
      'testing/1.ts': `import { b } from '../memory/1.js';`,
      'interceptor/1.ts': `import { of } from 'rxjs'; import { S } from '../redis-lock.service.js';`,
      'interceptor/2.ts': `import type { B } from '../redis-lock.options.js';`,
      'decorators/1.ts': `import { B } from '../interceptor/b.js'; import { Inject } from '@nestjs/common';`,
      'redis-lock.options.ts': `import type { B } from './redis/b.js';`,
      'redis-lock.module.ts': `import { B } from './redis/b.js'; import { D } from './decorators/b.js';`,
      'index.ts': `export { B } from './redis/b.js';`,
    };
    expect(await refusedImports({ ...TARGETS, ...accepted })).toEqual([]);
  }, 60_000);
});

describe('the rule of the cycles', () => {
  const cyclesWith = (file: string) => found.filter((line) => line.startsWith('no-circular') && line.includes(file));

  it('finds one of three files, once', () => {
    expect(cyclesWith('core/round-')).toEqual([
      'no-circular: lib/core/round-a.ts -> lib/core/round-b.ts -> lib/redis/round-c.ts -> lib/core/round-a.ts',
    ]);
  });

  it('finds a file that imports itself', () => {
    expect(cyclesWith('core/self.ts')).toEqual(['no-circular: lib/core/self.ts -> lib/core/self.ts']);
  });

  it('counts imports of types', () => {
    expect(cyclesWith('core/typed-')).toEqual([
      'no-circular: lib/core/typed-a.ts -> lib/core/typed-b.ts -> lib/core/typed-a.ts',
    ]);
  });
});

describe('the rule of the sizes', () => {
  it('finds a long function of any kind', async () => {
    const kinds: [kind: string, text: string][] = [
      ['function', `function f() {\n${linesOf(49)}}`],
      ['arrow', `const f = () => {\n${linesOf(49)}};`],
      ['method', `class A { f() {\n${linesOf(49)}} }`],
      ['constructor', `class A { constructor() {\n${linesOf(49)}} }`],
      ['accessor', `class A { get f() {\n${linesOf(49)}} }`],
    ];
    const long = kinds.map(([kind, text]) => [`${kind}.ts`, text]);
    const short = kinds.map(([kind, text]) => [`short/${kind}.ts`, text.replace('x;\n', '')]);
    expect(await refusedSizes(Object.fromEntries([...long, ...short]))).toEqual(
      kinds.map(([kind]) => `lib/${kind}.ts: 51`).sort(),
    );
  }, 60_000);
});

describe('the rule of the globals', () => {
  const USES = [
    'Math.random()',
    'Date.now()',
    'performance.now()',
    'setTimeout(f, 1)',
    'setInterval(f, 1)',
    'setImmediate(f)',
    'queueMicrotask(f)',
    'process.nextTick(f)',
    'process.hrtime()',
    'AbortSignal.timeout(1)',
    'new FinalizationRegistry(f)',
    'crypto.randomUUID()',
  ];
  const IMPORTS = [
    `import { randomBytes } from 'node:crypto';`,
    `import { randomUUID } from 'node:crypto';`,
    `import { setTimeout } from 'node:timers/promises';`,
    `import { performance } from 'node:perf_hooks';`,
  ];
  const texts = [...USES.map((use) => `export const a = (f) => ${use};`), ...IMPORTS];
  const inFolder = (folder: string): Sources =>
    Object.fromEntries(texts.map((text, i) => [`${folder}/${String(i).padStart(2, '0')}.ts`, text]));

  it('refuses time, randomness and garbage collection below the Nest layer, except for the runtime', async () => {
    const refused = { ...inFolder('core'), ...inFolder('redis/quorum') };
    const allowed = { ...inFolder('observability'), 'core/randomness.ts': texts[0]!, 'core/clock.ts': texts[3]! };
    const files = Object.keys(refused).map((path) => `lib/${path}`);
    expect(await filesWithRefusedGlobals({ ...refused, ...allowed })).toEqual(files.sort());
  }, 60_000);
});
