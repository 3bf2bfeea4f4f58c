// What the build does with the site that VitePress wrote.
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { MOVED } from './pages.mjs';

/** Adds the redirects, and checks the site. @throws {Error} that lists links to headings that do not exist */
export function finish({ outDir }) {
  for (const [from, to] of Object.entries(MOVED))
    redirect(join(outDir, `${from}.html`), `${relative(dirname(from), to)}.html`);
  const broken = brokenAnchors(outDir);
  if (broken.length > 0) throw new Error(`There are no such headings:\n${broken.join('\n')}`);
}

function redirect(file, address) {
  if (existsSync(file)) throw new Error(`site/pages.mjs: expected MOVED to have paths without a page, got ${file}.`);
  writeFileSync(
    file,
    `<!doctype html><meta charset="utf-8"><title>Moved</title><meta http-equiv="refresh" content="0; url=${address}">` +
      `<link rel="canonical" href="${address}"><a href="${address}">This page has moved.</a>\n`,
  );
}

/** VitePress finds links to pages that do not exist; this finds those to headings that do not. */
function brokenAnchors(outDir) {
  const files = readdirSync(outDir, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.html'));
  const pages = new Map(files.map((file) => [file, readFileSync(join(outDir, file), 'utf8')]));
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
