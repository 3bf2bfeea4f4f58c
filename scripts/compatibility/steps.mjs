// Makes an app from its own files, the files that all apps share, and the tarball; runs its steps, and prints one line for each.
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import pLimit from 'p-limit';
import { readJson, root } from '../checks.mjs';
import { follow } from '../follow.mjs';

const INSTALL_WITHIN_MS = 300_000;
const STEP_WITHIN_MS = 120_000;
const INSTALL = ['install', '--no-audit', '--no-fund', '--prefer-offline', '--no-package-lock', '--loglevel=error'];
const KEPT_OUTPUT = 30_000;

const TEMPLATES = join(root, 'test', 'package', 'apps');
const SHARED = join(TEMPLATES, 'common');

/** Apps with another library of clients than ioredis. */
const CLIENT_APPS = ['iovalkey', 'node-redis', 'node-redis-5'];

const atMostTwo = pLimit(2);

/** Runs a command when it is its turn; resolves to `{ ok, output, time }`. */
const runChild = (command, args, options) =>
  atMostTwo(async () => {
    const [start, out] = [performance.now(), []];
    const code = await follow(command, args, { ...options, out });
    const seconds = (performance.now() - start) / 1000;
    const late = seconds * 1000 >= options.limitMs ? `\nIt did not end within ${options.limitMs / 1000} s.\n` : '';
    const output = Buffer.concat(out).toString().slice(-KEPT_OUTPUT) + late;
    return { ok: code === 0, output, time: `${seconds.toFixed(1)} s` };
  });

export class Steps {
  counts = { passed: 0, failed: 0, skipped: 0 };
  #tools;

  /** `context`: the `folder` of the apps, the `tarball` that they install, and their `env`. */
  constructor(context) {
    this.context = context;
  }

  /** Installs an app and runs all of its steps. */
  async runApp(name, steps) {
    const installed = await this.#install(name);
    await this.#runAll(name, steps, installed ? undefined : 'the app could not be installed');
  }

  async #install(name) {
    const { folder, tarball, env } = this.context;
    const cwd = join(folder, name);
    createApp(name, cwd, tarball);
    const { ok, output, time } = await runChild('npm', INSTALL, { cwd, env, limitMs: INSTALL_WITHIN_MS });
    this.#print(ok, `${name}: npm install`, [time], output);
    return ok;
  }

  /** Runs steps, and those that need their results. `reason`: why they cannot run. */
  async #runAll(app, steps, reason) {
    const run = async (step) => {
      const missing = reason ?? (await this.#missingOf(step));
      if (missing) console.log(`skipped ${app}: ${step.title}, since ${missing}`);
      if (missing) this.counts.skipped += 1;
      const ok = !missing && (await this.#runStep(app, step));
      await this.#runAll(app, step.next ?? [], ok ? undefined : 'it was not built');
    };
    await Promise.all(steps.map(run));
  }

  /** Returns the reason why a step cannot run here; undefined if it can. */
  async #missingOf({ node, tools }) {
    if (!node && !tools) return undefined;
    // The app whose packages are the compilers and Node itself, when the first step needs it.
    if (!(await (this.#tools ??= this.#install('tools')))) return 'the tools could not be installed';
    const { platform, arch } = process;
    // On a platform for which npm has this Node, it must be installed: the step then fails without it.
    if (!node || (platform === 'linux' && arch === 'x64') || existsSync(this.#programOf(node))) return undefined;
    return `npm has no ${node} for ${platform} ${arch}`;
  }

  async #runStep(app, step) {
    const cwd = join(this.context.folder, app);
    for (const [file, text] of Object.entries(step.files ?? {})) {
      mkdirSync(dirname(join(cwd, file)), { recursive: true });
      writeFileSync(join(cwd, file), text);
    }
    const modules = join(this.context.folder, 'tools', 'node_modules');
    const fill = (text) => text.replace('{tools}', modules).replace('{root}', root).replace('{app}', cwd);
    const more = Object.entries(step.env ?? {}).map(([name, value]) => [name, fill(value)]);
    const env = { ...this.context.env, ...Object.fromEntries(more) };
    const program = step.node ? this.#programOf(step.node) : process.execPath;
    const options = { cwd: join(cwd, step.cwd ?? ''), env, limitMs: step.limitMs ?? STEP_WITHIN_MS };
    const { ok, output, time } = await runChild(program, step.args.map(fill), options);
    const report = step.reports ? reportOf(output) : undefined;
    // A process may end early without an error, when it has nothing left to wait for.
    const passed = ok && (!step.reports || report?.checked.length > 0);
    const tests = /^\s*Tests:?\s.*?(\d+) passed/m.exec(output)?.[1] ?? report?.checked.length;
    const about = [...this.#versionsOf(cwd, step, report), ...(tests ? [`checks: ${tests}`] : []), time];
    this.#print(passed, `${app}: ${step.title}`, about, output);
    return passed;
  }

  #versionsOf(cwd, { node, versions, tools = [] }, report) {
    const ofTool = (name) => versionOf(join(this.context.folder, 'tools'), name);
    const ran = report?.node ?? (node ? ofTool(node) : process.version);
    const named = [
      ...tools.map((name) => `${name} ${ofTool(name)}`),
      ...versions.map((name) => `${name} ${versionOf(cwd, name)}`),
    ];
    return [`${node === 'bun' ? 'Bun' : 'Node'} ${ran.replace('v', '')}`, ...named];
  }

  #programOf(node) {
    return join(this.context.folder, 'tools', 'node_modules', node, 'bin', node === 'bun' ? 'bun' : 'node');
  }

  #print(ok, title, details, output) {
    this.counts[ok ? 'passed' : 'failed'] += 1;
    console.log(`${ok ? 'ok     ' : 'FAILED '} ${title} (${details.join(', ')})`);
    if (!ok) console.log(output);
  }
}

/** Reads the last line of a process that ran to its end: `{ node, checked }`. */
function reportOf(output) {
  const line = output.trimEnd().split('\n').at(-1);
  return line.startsWith('{"node":') ? JSON.parse(line) : undefined;
}

/** Fills an empty folder with the app of that name. */
function createApp(name, folder, tarball) {
  cpSync(join(TEMPLATES, name), folder, { recursive: true });
  copyFileSync(tarball, join(folder, 'package.tgz'));
  if (name.startsWith('nest-add')) copyFileSync(join(SHARED, 'started-app.mjs'), join(folder, 'started-app.mjs'));
  const source = join(folder, 'src');
  if (!existsSync(source)) return;
  if (CLIENT_APPS.includes(name)) {
    // The files that import no library of clients.
    cpSync(join(SHARED, 'any-client'), source, { recursive: true });
    copyFileSync(join(SHARED, 'src', 'report.ts'), join(source, 'report.ts'));
    return;
  }
  const manifest = JSON.parse(execFileSync('tar', ['-xzOf', tarball, 'package/package.json'], { encoding: 'utf8' }));
  cpSync(join(SHARED, 'src'), source, { recursive: true });
  if (!existsSync(join(source, 'main.ts'))) writeMain(folder);
  // An entry that is just a file, such as package.json, is not code.
  const entries = Object.entries(manifest.exports ?? {}).filter(
    ([key, target]) => key !== '.' && typeof target === 'object',
  );
  const subpaths = entries.map(([key]) => key.replace('./', ''));
  const lines = subpaths.map((subpath) => `export * as ${subpath} from '${manifest.name}/${subpath}';\n`);
  writeFileSync(join(source, 'entries.ts'), lines.join('') || 'export {};\n');
  if (subpaths.includes('testing')) cpSync(join(SHARED, 'testing'), source, { recursive: true });
  if (name === 'lowest-peers') addLowestPeers(join(folder, 'package.json'), manifest.peerDependencies);
}

/** Imports name a file with its extension in an ES module, and without it in a CommonJS module. */
function writeMain(folder) {
  const text = readFileSync(join(SHARED, 'main.ts'), 'utf8');
  const isModule = readJson(folder, 'package.json').type === 'module';
  writeFileSync(join(folder, 'src', 'main.ts'), isModule ? text : text.replaceAll(/(?<= from '\.\/\w+)\.js/g, ''));
}

/** Adds the first version of each range, because the package declares support for it. */
function addLowestPeers(file, peers) {
  const app = readJson(file);
  for (const [name, range] of Object.entries(peers)) app.dependencies[name] = /\d+\.\d+\.\d+/.exec(range)[0];
  writeFileSync(file, JSON.stringify(app, undefined, 2));
}

/** Returns the version of an installed package. */
function versionOf(folder, name) {
  const file = join(folder, 'node_modules', name, 'package.json');
  return existsSync(file) ? readJson(file).version : '(not installed)';
}
