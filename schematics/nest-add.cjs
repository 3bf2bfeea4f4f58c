// `nest add nestjs-redis-lock`: imports the module into the app, and adds a client of Redis if the app has none.
// Plain CommonJS without packages: the CLI of the app passes in all that it needs.
const { peerDependencies } = require('../package.json');

const MODULE = 'RedisLockModule.forRootAsync({ useFactory: () => ({ connection: process.env.REDIS_URL }) })';
const IMPORT = "import { RedisLockModule } from 'nestjs-redis-lock';\n";
const CLIENTS = ['ioredis', 'iovalkey', 'redis'];

/** The text of a module with RedisLockModule in its imports; undefined if there is no place for it that is certain. */
function withLocks(text) {
  // At the beginning of a line: not in a comment.
  const start = /^[^\S\n]*@Module\(\s*\{/m.exec(text);
  if (!start) return undefined;
  const head = text.slice(0, start.index + start[0].length);
  const body = text.slice(head.length);
  // Not behind a comment or an object, which may contain other imports.
  const list = /^([^@{}/]*?\bimports:\s*\[)(\s*)(\]?)/.exec(body);
  if (!list && /\bimports\b/.test(body)) return undefined;
  if (!list) return withImport(`${head}\n  imports: [${MODULE}],${body}`);
  const [found, before, space, end] = list;
  const after = body.slice(found.length);
  return withImport(`${head}${before}${end ? `${MODULE}]` : `${space}${MODULE},${space || ' '}`}${after}`);
}

/** After the last import that a line begins with; imports of several lines end with theirs. */
function withImport(text) {
  const last = [...text.matchAll(/^import\s[^;]*?from\s+['"][^'"]+['"];?[^\S\n]*\n/gm)].at(-1);
  const at = last ? last.index + last[0].length : 0;
  return text.slice(0, at) + IMPORT + text.slice(at);
}

/** Adds ioredis to package.json unless the app has a client. The CLI would install it with npm only, so the user does. */
function addClient(tree, { logger }) {
  const path = '/package.json';
  const manifest = tree.exists(path) ? JSON.parse(tree.readText(path)) : undefined;
  const has = (name) => manifest?.dependencies?.[name] ?? manifest?.devDependencies?.[name];
  if (!manifest || CLIENTS.some(has)) return;
  const version = peerDependencies.ioredis.split('||').at(-1).trim();
  const dependencies = Object.entries({ ...manifest.dependencies, ioredis: version });
  manifest.dependencies = Object.fromEntries(dependencies.sort(([a], [b]) => (a < b ? -1 : 1)));
  tree.overwrite(path, `${JSON.stringify(manifest, undefined, 2)}\n`);
  logger.info(`package.json has ioredis ${version} now: install it (npm install, or that of your package manager).`);
}

module.exports.default =
  ({ sourceRoot = 'src' }) =>
  (tree, context) => {
    const path = `/${sourceRoot}/app.module.ts`;
    const text = tree.exists(path) ? tree.readText(path) : '';
    if (text.includes('RedisLockModule')) {
      context.logger.info(`${path} has RedisLockModule already.`);
      return tree;
    }
    const changed = withLocks(text);
    if (changed === undefined) {
      const got = text ? 'a module that this command cannot change safely' : 'no such file';
      throw new Error(
        `${path}: expected \`@Module({ imports: [...] })\`, got ${got}. Add ${MODULE} to the imports of your root module by hand, ` +
          `and to the top: ${IMPORT.trim()}`,
      );
    }
    tree.overwrite(path, changed);
    addClient(tree, context);
    context.logger.info('The locks are on the Redis of REDIS_URL; without it, on 127.0.0.1:6379 outside production.');
    return tree;
  };
