// Builds the docs site from `docs` and from the docstrings, and checks its links: `npm run docs -- --help`.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { flag, refuseWords, runCommand, whole } from './command.mjs';
import { createDocsServer } from './docs-server.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const site = join(root, 'site');
const PAGES = join(site, 'pages');
const DIST = join(site, 'dist');

const usage = `Usage: npm run docs -- [options]
  --serve   shows the site that was built, until Ctrl-C
  --port N  where (a free port)
The site is in site/dist: files for any web server.`;

const options = { serve: flag, port: whole(1, 65_535, 0) };

function installTools() {
  if (existsSync(join(site, 'node_modules'))) return;
  run('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error']);
}

/** Runs a command in the folder of the site; ends this one if it fails. */
function run(command, args) {
  const { status } = spawnSync(command, args, { cwd: site, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

const tool = (path, ...args) => run(process.execPath, [join('node_modules', path), ...args]);

/** VitePress finds its own packages only from pages in its folder, and typedoc adds pages: so it gets a copy of `docs`. */
function copyPages() {
  rmSync(PAGES, { recursive: true, force: true });
  cpSync(join(root, 'docs'), PAGES, { recursive: true });
}

/** VitePress finds links to pages that do not exist; this finds those to headings that do not. */
function brokenAnchors() {
  const files = readdirSync(DIST, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.html'));
  const ids = new Map(files.map((file) => [file, attributes(readFileSync(join(DIST, file), 'utf8'), 'id')]));
  return files.flatMap((file) => {
    const links = attributes(readFileSync(join(DIST, file), 'utf8'), 'href');
    return [...links].filter((href) => !leads(href, file, ids)).map((href) => `${file}: ${href}`);
  });
}

function leads(href, file, ids) {
  const { origin, pathname, hash } = new URL(href, `http://site/${file}`);
  if (origin !== 'http://site' || hash.length < 2) return true;
  const target = relative('/', pathname.endsWith('/') ? `${pathname}index.html` : pathname);
  return Boolean(ids.get(target)?.has(decodeURIComponent(hash.slice(1))));
}

const attributes = (html, name) =>
  new Set(
    [...html.matchAll(new RegExp(`\\s${name}="([^"]*)"`, 'g'))].map(([, value]) => value.replaceAll('&amp;', '&')),
  );

function build() {
  installTools();
  copyPages();
  tool('typedoc/bin/typedoc', '--options', 'typedoc.config.mjs');
  tool('vitepress/bin/vitepress.js', 'build', '.');
  const broken = brokenAnchors();
  for (const link of broken) console.error(`There is no such heading: ${link}`);
  if (broken.length > 0) process.exit(1);
}

function serveSite(port) {
  const server = createDocsServer(DIST);
  server.listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`));
}

await runCommand({ usage, options }, ({ serve, port }, words) => {
  refuseWords(words);
  build();
  if (serve) serveSite(port);
  else console.log('The site is in site/dist. To see it: npm run docs -- --serve');
});
