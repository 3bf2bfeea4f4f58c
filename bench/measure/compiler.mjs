import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { makeFolder } from '../../scripts/redis.mjs';
import { spreadOf } from './figures.mjs';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const METHODS_OF_A_CLASS = 10;

/** Measures how long tsc takes for locked methods, compared with the same methods below a decorator that checks nothing. */
export function compiler({ methods, rounds }) {
  const folder = makeFolder();
  const paths = {
    'nestjs-redis-lock': [join(root, 'dist', 'cjs', 'index.d.ts')],
    '*': [join(root, 'node_modules', '*')],
  };
  const compilerOptions = {
    target: 'es2022', module: 'nodenext', moduleResolution: 'nodenext', strict: true, noEmit: true, skipLibCheck: true,
    experimentalDecorators: true, types: [], paths,
  }; // prettier-ignore
  for (const name of ['plain', 'locked']) {
    writeFileSync(join(folder.path, `${name}.ts`), sourceOf(name, methods));
    const config = { compilerOptions, files: [`${name}.ts`] };
    writeFileSync(join(folder.path, `${name}.json`), JSON.stringify(config));
  }
  const seconds = { plain: [], locked: [] };
  for (let round = -1; round < rounds; round++) {
    for (const name of ['plain', 'locked']) {
      const time = timeOf(join(folder.path, `${name}.json`));
      if (round >= 0) seconds[name].push(time);
    }
  }
  folder.remove();
  const ratios = seconds.locked.map((time, i) => time / seconds.plain[i]);
  return [{ methods, plain: spreadOf(seconds.plain), locked: spreadOf(seconds.locked), ratio: spreadOf(ratios) }];
}

/** Each method has its own key and argument types, as in an app. */
function sourceOf(kind, methods) {
  const decorator = kind === 'plain' ? 'Plain' : 'Locked';
  const classes = Array.from({ length: methods / METHODS_OF_A_CLASS }, (_, c) => {
    const lines = Array.from({ length: METHODS_OF_A_CLASS }, (_, m) => {
      const input = `{ id: string; n${c}_${m}: number; nested: { a: string; b: number } }`;
      return `  @${decorator}('order${c}_${m}:<0.id>:<1>')\n  async run${m}(order: ${input}, sku: string): Promise<string> {\n    return order.id + sku;\n  }`;
    });
    return `export class Service${c} {\n${lines.join('\n\n')}\n}\n`;
  });
  return [
    "import { Locked } from 'nestjs-redis-lock';",
    'function Plain(key: string) {',
    '  return (target: object, name: string, descriptor: PropertyDescriptor): void => void [key, target, name, descriptor];',
    '}',
    'export const used = [Locked, Plain];',
    ...classes,
  ].join('\n');
}

function timeOf(config) {
  const { stdout, status } = spawnSync(process.execPath, [tsc, '-p', config, '--extendedDiagnostics'], {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`tsc failed:\n${stdout}`);
  return Number(/^Total time:\s+([\d.]+)s/m.exec(stdout)[1]);
}
