import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import ts from 'typescript';

const lib = join(import.meta.dirname, '..', '..', '..', 'lib');
const OPTIONS = { target: ts.ScriptTarget.ES2022, experimentalDecorators: true, emitDecoratorMetadata: true };

/** The import specifiers of a compiled file. */
function importsOf(file: string): string[] {
  const { outputText } = ts.transpileModule(readFileSync(join(lib, file), 'utf8'), { compilerOptions: OPTIONS });
  return ts.preProcessFile(outputText).importedFiles.map(({ fileName }) => fileName);
}

/** The packages that a file needs at run time, with those of the files that it imports. */
function packagesOf(entry: string): { files: Set<string>; packages: Set<string> } {
  const [files, packages] = [new Set<string>(), new Set<string>()];
  const visit = (file: string): void => {
    if (files.has(file)) return;
    files.add(file);
    for (const target of importsOf(file)) {
      if (target.startsWith('.')) visit(posix.join(posix.dirname(file), target).replace(/\.(c?)js$/, '.$1ts'));
      else if (!target.startsWith('node:')) packages.add(target);
    }
  };
  visit(entry);
  return { files, packages };
}

const NEST = ['@nestjs/common', '@nestjs/core'];

describe('an app', () => {
  it.each([
    ['observability/terminus.ts', [...NEST, '@nestjs/terminus']],
    ['observability/prometheus.ts', [...NEST, 'prom-client']],
    ['observability/opentelemetry.ts', [...NEST, '@opentelemetry/api']],
    ['board/index.ts', [...NEST, 'reflect-metadata']],
  ])('that uses %s needs only %p', (entry, packages) => {
    expect([...packagesOf(entry).packages].sort()).toEqual([...packages].sort());
  });

  it('that uses none of these entries needs none of their packages', () => {
    const { files, packages } = packagesOf('index.ts');
    expect(packages.has('@nestjs/common')).toBe(true);
    expect([...files].filter((file) => file.startsWith('observability'))).toEqual([]);
    for (const name of ['@nestjs/terminus', 'prom-client', '@opentelemetry/api'])
      expect(packages.has(name)).toBe(false);
  });
});
