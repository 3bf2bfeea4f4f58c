import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export const root = join(import.meta.dirname, '..', '..');
const CONFIGURATIONS = ['.dependency-cruiser.mjs', '.oxlintrc.json', 'package.json', 'tsconfig.json'];

/** Texts by path, such as `core/lock.ts`. */
export type Sources = Readonly<Record<string, string>>;

/** What dependency-cruiser refuses in a lib of these files. */
export async function refusedImports(lib: Sources): Promise<string[]> {
  const output = await runInProject(lib, 'dependency-cruiser/bin/dependency-cruise.mjs', '--output-type', 'json');
  const violations: { rule: { name: string }; from: string; unresolvedTo: string; cycle?: { name: string }[] }[] =
    JSON.parse(output).summary.violations;
  return violations.map(({ rule, from, unresolvedTo, cycle }) =>
    cycle
      ? `${rule.name}: ${[from, ...cycle.map(({ name }) => name)].join(' -> ')}`
      : `${rule.name}: ${from} imports ${unresolvedTo}`,
  );
}

interface Diagnostic {
  readonly code: string;
  readonly message: string;
  readonly filename: string;
}

/** What the rules of sizes refuse in a lib of these files. */
export async function refusedSizes(lib: Sources): Promise<string[]> {
  const sizes = await diagnosticsOf(lib, 'max-lines');
  return sizes.map(({ filename, message }) => `${filename}: ${/\(\d+\)/.exec(message)![0].slice(1, -1)}`).sort();
}

/** The files in which the rules of globals refuse something. */
export async function filesWithRefusedGlobals(lib: Sources): Promise<string[]> {
  const refused = await diagnosticsOf(lib, 'no-restricted');
  return [...new Set(refused.map(({ filename }) => filename))].sort();
}

/** The findings of the rules of oxlint whose names contain this text. */
async function diagnosticsOf(lib: Sources, rules: string): Promise<readonly Diagnostic[]> {
  const output = await runInProject(lib, 'oxlint/bin/oxlint', '--format', 'json');
  const { diagnostics } = JSON.parse(output) as { readonly diagnostics: readonly Diagnostic[] };
  return diagnostics.filter(({ code }) => code.includes(rules));
}

async function runInProject(lib: Sources, program: string, ...args: string[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'architecture-'));
  try {
    for (const file of CONFIGURATIONS) copyFileSync(join(root, file), join(folder, file));
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
    for (const [path, text] of Object.entries(lib)) {
      const file = join(folder, 'lib', path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
    }
    return await run(folder, [join(root, 'node_modules', program), 'lib', ...args]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Both tools exit with an error when they find something. */
function run(cwd: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { cwd, maxBuffer: 2 ** 26 }, (error, stdout, stderr) =>
      stdout === '' ? reject(new Error(stderr, { cause: error })) : resolve(stdout),
    );
  });
}
