import { existsSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';

/**
 * The address of a repository on its forge, from package.json; undefined if it is missing.
 * @param {string | { url?: string } | undefined} repository
 */
export function forgeOf(repository) {
  const url = typeof repository === 'string' ? repository : repository?.url;
  const address = url?.replace(/^git\+/, '').replace(/\.git$/, '');
  return /^https:\/\/[^/]+\/[^/]+\/[^/]+$/.test(address ?? '') ? address : undefined;
}

const SCHEME = /^[a-z][a-z+.-]*:/i;

/**
 * What a link of a page means on the site. Pages link to each other, and to files of the repository that are not pages. Those links
 * lead to the forge; while its address is unknown, they are plain text.
 * @param {string} href as written in the page
 * @param {{ page: string, docs: string, root: string, blob: string | undefined }} place the files and folders, and the address of
 *   the files on the forge
 * @returns {{ kind: 'keep' } | { kind: 'text' } | { kind: 'link', href: string }}
 */
export function linkOnSite(href, { page, docs, root, blob }) {
  if (SCHEME.test(href) || href.startsWith('#') || href.startsWith('//')) return { kind: 'keep' };
  const [path, hash] = href.split('#', 2);
  const file = join(dirname(page), decodeURI(path));
  const inDocs = relative(docs, file);
  // VitePress finds links to pages that do not exist.
  if (!inDocs.startsWith('..') && (inDocs.endsWith('.md') || !existsSync(file))) return { kind: 'keep' };
  if (blob === undefined) return { kind: 'text' };
  const inRoot = relative(root, file).split(sep).join('/');
  return { kind: 'link', href: `${blob}/${inRoot}${hash === undefined ? '' : `#${hash}`}` };
}
