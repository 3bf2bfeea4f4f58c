// Builds the docs site from `docs` and from the docstrings, and checks its links: `npm run docs -- --help`.
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { root } from './checks.mjs';
import { ensurePackages, flag, mustRun, runCommand, whole } from './command.mjs';

const site = join(root, 'site');
const PAGES = join(site, 'pages');

const usage = `Usage: npm run docs -- [options]
  --serve   shows the site that was built, until Ctrl-C
  --port N  where (4173, or the next free one)
The site is in site/dist: files for any web server.`;

const options = { serve: flag, port: whole(1, 65_535, 4_173) };

const tool = (path, ...args) => mustRun(process.execPath, [join('node_modules', path), ...args], { cwd: site });

function build() {
  ensurePackages(site);
  // VitePress finds its own packages only from pages in its folder, and typedoc adds pages.
  rmSync(PAGES, { recursive: true, force: true });
  for (const folder of [join(root, 'docs'), join(site, 'home')]) cpSync(folder, PAGES, { recursive: true });
  tool('typedoc/bin/typedoc', '--options', 'typedoc.config.mjs');
  tool('vitepress/bin/vitepress.js', 'build', '.');
}

await runCommand({ usage, options }, ({ serve, port }) => {
  build();
  // The server of VitePress itself listens on all addresses.
  if (serve) tool('vite/bin/vite.js', 'preview', '--host', '127.0.0.1', '--port', port);
  else console.log('The site is in site/dist. To see it: npm run docs -- --serve');
});
