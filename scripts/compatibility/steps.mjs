// Runs the steps of an app and prints one line for each.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { createApp, versionOf } from './app-folder.mjs';
import { runChild } from './children.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const INSTALL_WITHIN_MS = 300_000;
const STEP_WITHIN_MS = 120_000;
const INSTALL = ['install', '--no-audit', '--no-fund', '--prefer-offline', '--no-package-lock', '--loglevel=error'];

export class Steps {
  counts = { passed: 0, failed: 0, skipped: 0 };
  #tools;

  /** `context`: the `folder` of the apps, the `tarball` that they install and its `manifest`, and their `env`. */
  constructor(context) {
    this.context = context;
  }

  /** Installs an app and runs all of its steps. */
  async runApp(name, steps) {
    const installed = await this.#install(name);
    await this.#runAll(name, steps, installed ? undefined : 'the app could not be installed');
  }

  /** Installs the app whose packages are the compilers and Node itself, when the first step needs it. */
  #installTools() {
    return (this.#tools ??= this.#install('tools'));
  }

  async #install(name) {
    const { folder, tarball, manifest, env } = this.context;
    createApp(name, join(folder, name), tarball, manifest);
    const options = { cwd: join(folder, name), env, limitMs: INSTALL_WITHIN_MS };
    const { ok, output, seconds } = await runChild('npm', INSTALL, options);
    this.#print(ok, `${name}: npm install`, [`${seconds.toFixed(1)} s`], output);
    return ok;
  }

  async #runAll(app, steps, reason) {
    await Promise.all(steps.map((step) => this.#run(app, step, reason)));
  }

  async #run(app, step, reason) {
    const missing = reason ?? (await this.#missingOf(step));
    if (missing) {
      this.counts.skipped += 1;
      console.log(`skipped ${app}: ${step.title}, since ${missing}`);
      return this.#runAll(app, step.next ?? [], 'it was not built');
    }
    const ok = await this.#runStep(app, step);
    return this.#runAll(app, step.next ?? [], ok ? undefined : 'it was not built');
  }

  /** Returns why a step cannot run here; undefined if it can. */
  async #missingOf({ node, tools }) {
    if (!node && !tools) return undefined;
    if (!(await this.#installTools())) return 'the tools could not be installed';
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
    const fill = (text) => text.replace('{tools}', modules).replace('{root}', ROOT).replace('{app}', cwd);
    const args = step.args.map(fill);
    const more = Object.entries(step.env ?? {}).map(([name, value]) => [name, fill(value)]);
    const options = {
      cwd,
      env: { ...this.context.env, ...Object.fromEntries(more) },
      limitMs: step.limitMs ?? STEP_WITHIN_MS,
    };
    const program = step.node ? this.#programOf(step.node) : process.execPath;
    const { ok, output, seconds } = await runChild(program, args, options);
    const report = step.reports ? reportOf(output) : undefined;
    // A process may end early without an error, when it has nothing left to wait for.
    const passed = ok && (!step.reports || report?.checked.length > 0);
    const about = this.#versionsOf(cwd, step, report);
    const tests = /^\s*Tests:?\s.*?(\d+) passed/m.exec(output)?.[1];
    if (report ?? tests) about.push(`checks: ${tests ?? report.checked.length}`);
    this.#print(passed, `${app}: ${step.title}`, [...about, `${seconds.toFixed(1)} s`], output);
    return passed;
  }

  #versionsOf(cwd, { node, versions, tools = [] }, report) {
    const ofTool = (name) => versionOf(join(this.context.folder, 'tools'), name);
    const ran = report?.node.slice(1) ?? (node ? ofTool(node).replace('v', '') : process.versions.node);
    const named = [
      ...tools.map((name) => [name, ofTool(name)]),
      ...versions.map((name) => [name, versionOf(cwd, name)]),
    ];
    return [`Node ${ran}`, ...named.map(([name, version]) => `${name} ${version}`)];
  }

  #programOf(node) {
    return join(this.context.folder, 'tools', 'node_modules', node, 'bin', 'node');
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
