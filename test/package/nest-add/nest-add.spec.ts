import { join } from 'node:path';
import { SchematicTestRunner, UnitTestTree } from '@angular-devkit/schematics/testing/index.js';
import { Tree } from '@angular-devkit/schematics';
import { rejection } from '../../support/waiting/rejection.js';

const IMPORT = "import { RedisLockModule } from 'nestjs-redis-lock';";
const MODULE = 'RedisLockModule.forRootAsync({ useFactory: () => ({ connection: process.env.REDIS_URL }) })';

/** Runs `nest add nestjs-redis-lock` on these files; with the texts that it logs. */
async function add(files: Record<string, string>, options: { sourceRoot?: string } = {}) {
  const runner = new SchematicTestRunner('nestjs-redis-lock', join(process.cwd(), 'schematics/collection.json'));
  const logged: string[] = [];
  runner.logger.subscribe(({ message }) => logged.push(message));
  const tree = new UnitTestTree(Tree.empty());
  for (const [path, text] of Object.entries(files)) tree.create(path, text);
  return { tree: await runner.runSchematic('nest-add', options, tree), logged };
}

const moduleOf = async (text: string): Promise<string> =>
  (await add({ '/src/app.module.ts': text })).tree.readText('/src/app.module.ts');

const nest = "import { Module } from '@nestjs/common';\n";

describe('nest add', () => {
  it('imports the module into the app that the CLI makes', async () => {
    const text = await moduleOf(
      `${nest}\n@Module({\n  imports: [],\n  controllers: [],\n})\nexport class AppModule {}\n`,
    );
    expect(text).toBe(
      `${nest}${IMPORT}\n\n@Module({\n  imports: [${MODULE}],\n  controllers: [],\n})\nexport class AppModule {}\n`,
    );
  });

  it.each([
    ['imports: [A]', `imports: [${MODULE}, A]`],
    [
      'imports: [\n    A,\n    B.forRoot({ imports: [] }),\n  ]',
      `imports: [\n    ${MODULE},\n    A,\n    B.forRoot({ imports: [] }),\n  ]`,
    ],
    ['providers: [P], imports: [A]', `providers: [P], imports: [${MODULE}, A]`],
  ])('puts it first in %j', async (given, expected) => {
    expect(await moduleOf(`${nest}@Module({ ${given} })\nexport class AppModule {}\n`)).toBe(
      `${nest}${IMPORT}\n@Module({ ${expected} })\nexport class AppModule {}\n`,
    );
  });

  it('adds imports to a module that has none', async () => {
    expect(await moduleOf(`${nest}@Module({ providers: [] })\nexport class AppModule {}\n`)).toBe(
      `${nest}${IMPORT}\n@Module({\n  imports: [${MODULE}], providers: [] })\nexport class AppModule {}\n`,
    );
  });

  it('finds the end of imports of several lines, and the folder of the app', async () => {
    const text = "import {\n  A,\n} from './a';\nconst x = 1;\n@Module({ imports: [A] })\nexport class AppModule {}\n";
    const { tree } = await add({ '/apps/one/src/app.module.ts': text }, { sourceRoot: 'apps/one/src' });
    expect(tree.readText('/apps/one/src/app.module.ts')).toContain(`from './a';\n${IMPORT}\nconst x = 1;`);
  });

  it('leaves a comment with a module as it is', async () => {
    const text = '// Was:\n// @Module({ imports: [Old] })\n@Module({ imports: [A] })\nexport class AppModule {}\n';
    expect(await moduleOf(text)).toBe(`${IMPORT}\n${text.replace('imports: [A]', `imports: [${MODULE}, A]`)}`);
  });

  it('changes nothing the second time', async () => {
    const once = await moduleOf(`${nest}@Module({ imports: [] })\nexport class AppModule {}\n`);
    expect(await moduleOf(once)).toBe(once);
  });

  it.each([
    ['no such file', undefined],
    ['a module that this command cannot change safely', 'export const AppModule = {};'],
    ['a module that this command cannot change safely', '@Module({ imports: MODULES })\nexport class AppModule {}'],
    [
      'a module that this command cannot change safely',
      '@Module({\n  // imports: [Old],\n  imports: [A],\n})\nclass B {}',
    ],
    [
      'a module that this command cannot change safely',
      '@Module({\n  /* imports: [Old], */\n  imports: [A],\n})\nclass B {}',
    ],
    [
      'a module that this command cannot change safely',
      "@Module({ providers: [{ provide: 'settings', useValue: { imports: ['a'] } }], imports: [A] })\nclass B {}",
    ],
  ])('refuses %s, and names what to write', async (got, text) => {
    const refused = await rejection(add(text === undefined ? {} : { '/src/app.module.ts': text }));
    expect(refused.message).toContain(`got ${got}. Add ${MODULE} to the imports`);
  });

  it.each([
    [{ dependencies: { rxjs: '7' } }, ['ioredis', 'rxjs']],
    [{ dependencies: { redis: '6' } }, ['redis']],
    [{ dependencies: { zod: '4', iovalkey: '0.4' } }, ['zod', 'iovalkey']],
  ])('adds a client of Redis to an app without one: %j', async (manifest, expected) => {
    const module = `${nest}@Module({ imports: [] })\nexport class AppModule {}\n`;
    const files = { '/src/app.module.ts': module, '/package.json': JSON.stringify(manifest) };
    const { tree, logged } = await add(files);
    const { dependencies } = tree.readJson('/package.json') as unknown as { dependencies: Record<string, string> };
    expect(Object.keys(dependencies)).toEqual(expected);
    expect(logged.some((text) => text.includes('install it'))).toBe(expected[0] === 'ioredis');
  });
});
