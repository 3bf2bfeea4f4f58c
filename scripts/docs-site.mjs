// Builds the docs site from `docs` and from the docstrings, and checks its links: `npm run docs -- --help`.
import { cpSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import process from 'node:process';
import { root } from './checks.mjs';
import { UsageError, ensurePackages, flag, mustRun, runCommand, whole } from './command.mjs';

const site = join(root, 'site');
const PAGES = join(site, 'pages');
const DIST = join(site, 'dist');

const usage = `Usage: npm run docs -- [options]
  --serve   shows the site that was built, until Ctrl-C
  --port N  where (4173, or the next free one)
The site is in site/dist: files for any web server.`;

const options = { serve: flag, port: whole(1, 65_535, 4_173) };

const tool = (path, ...args) => mustRun(process.execPath, [join('node_modules', path), ...args], { cwd: site });

/** VitePress finds links to pages that do not exist; this finds those to headings that do not. */
function brokenAnchors() {
  const files = readdirSync(DIST, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.html'));
  const pages = new Map(files.map((file) => [file, readFileSync(join(DIST, file), 'utf8')]));
  const ids = new Map([...pages].map(([file, html]) => [file, attributes(html, 'id')]));
  return [...pages].flatMap(([file, html]) => {
    const links = [...attributes(html, 'href')].filter((href) => !leads(href, file, ids));
    return links.map((href) => `${file}: ${href}`);
  });
}

const attributes = (html, name) =>
  new Set(
    [...html.matchAll(new RegExp(`\\s${name}="([^"]*)"`, 'g'))].map(([, value]) => value.replaceAll('&amp;', '&')),
  );

function leads(href, file, ids) {
  const { origin, pathname, hash } = new URL(href, `http://site/${file}`);
  if (origin !== 'http://site' || hash.length < 2) return true;
  const target = relative('/', pathname.endsWith('/') ? `${pathname}index.html` : pathname);
  return Boolean(ids.get(target)?.has(decodeURIComponent(hash.slice(1))));
}

function build() {
  ensurePackages(site);
  // VitePress finds its own packages only from pages in its folder, and typedoc adds pages.
  rmSync(PAGES, { recursive: true, force: true });
  cpSync(join(root, 'docs'), PAGES, { recursive: true });
  tool('typedoc/bin/typedoc', '--options', 'typedoc.config.mjs');
  tool('vitepress/bin/vitepress.js', 'build', '.');
  const broken = brokenAnchors();
  if (broken.length > 0) throw new UsageError(`There are no such headings:\n${broken.join('\n')}`);
}

await runCommand({ usage, options }, ({ serve, port }) => {
  build();
  // The server of VitePress itself listens on all addresses.
  if (serve) tool('vite/bin/vite.js', 'preview', '--host', '127.0.0.1', '--port', port);
  else console.log('The site is in site/dist. To see it: npm run docs -- --serve');
});
