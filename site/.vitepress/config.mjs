import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { defineConfig } from 'vitepress';
import llms from 'vitepress-plugin-llms';
import { finish } from '../after-build.mjs';
import { manifest, root } from '../entries.mjs';
import { GROUPS, INTERNALS } from '../pages.mjs';
import { forgeOf, linkOnSite } from '../repository-links.mjs';

const docs = join(root, 'docs');
/** Without an address, the site has no links to the repository. */
const repository = process.env.DOCS_REPOSITORY || manifest.repository;
const address = forgeOf(repository);
if (repository && !address)
  throw new Error(
    `expected DOCS_REPOSITORY to be like https://forge.example/owner/name, got ${JSON.stringify(repository)}.`,
  );

/** Links to files of the repository lead to the forge, and diagrams are drawn. */
function extendMarkdown(markdown) {
  const { fence } = markdown.renderer.rules;
  markdown.renderer.rules.fence = (tokens, i, ...rest) =>
    tokens[i].info.trim() === 'mermaid'
      ? `<Mermaid source="${encodeURIComponent(tokens[i].content)}" />`
      : fence(tokens, i, ...rest);
  markdown.core.ruler.push('repository-links', ({ tokens, env }) => {
    // The page is a copy.
    const page = join(docs, env.relativePath);
    for (const { children } of tokens) retarget(children ?? [], page);
  });
}

/** By default, the colours of a line are left out if it takes half a second, which happens on a busy machine. */
const withoutTimeLimit = { preprocess: (_code, options) => void (options.tokenizeTimeLimit = 0) };

function retarget(tokens, page) {
  const ends = [];
  for (const token of tokens) {
    if (token.type === 'link_open') ends.push(changeLink(token, page));
    if (token.type === 'link_close') ends.pop()?.(token);
  }
}

/** Returns what to do with the end of the link. */
function changeLink(token, page) {
  const blob = address && `${address}/blob/main`;
  const { kind, href } = linkOnSite(token.attrGet('href'), { page, docs, root, blob });
  if (kind === 'link') token.attrSet('href', href);
  if (kind !== 'text') return () => {};
  Object.assign(token, { tag: 'span', attrs: [['title', 'a file of the repository']], type: 'text_open' });
  return (end) => Object.assign(end, { tag: 'span', type: 'text_close' });
}

/** The anchors of headings are those of the forge, since that is how the pages link to them. */
const slugOf = (heading) =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
    .replaceAll(' ', '-');

const decisions = readdirSync(join(docs, 'adr'))
  .sort()
  .map((file) => ({
    text: readFileSync(join(docs, 'adr', file), 'utf8').match(/^# (.*)$/m)[1],
    link: `/adr/${file.replace(/\.md$/, '')}`,
  }));

const linkOf = (file) => `/${file === 'README' ? 'all-pages' : file}`;

const groups = GROUPS.map(({ title, pages }) => ({
  text: title,
  items: pages.map(([file, text]) => ({ text, link: linkOf(file) })),
}));

const sidebar = [
  ...groups.filter(({ text }) => text !== INTERNALS),
  { text: 'API reference', link: '/api/' },
  ...groups.filter(({ text }) => text === INTERNALS),
  { text: 'Decisions', collapsed: true, items: decisions },
];

export default defineConfig({
  title: manifest.name,
  description: manifest.description,
  srcDir: './pages',
  outDir: './dist',
  cacheDir: './node_modules/.cache/vitepress',
  rewrites: { 'README.md': 'all-pages.md' },
  head: [['link', { rel: 'icon', href: '/favicon.svg', type: 'image/svg+xml' }]],
  transformHead: ({ page }) => [
    ['link', { rel: 'alternate', type: 'text/markdown', href: `/${page.replace(/.index\.md$/, '.md')}` }],
  ],
  transformPageData: ({ filePath, frontmatter }) => void (frontmatter.editLink ??= !filePath.startsWith('api/')),
  buildEnd: finish,
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config: extendMarkdown,
    codeTransformers: [withoutTimeLimit],
    languageAlias: { acl: 'ini' },
    anchor: { slugify: slugOf },
  },
  vite: {
    // Writes each page as Markdown, llms.txt and llms-full.txt.
    plugins: [llms({ excludeIndexPage: false, injectLLMHint: false })],
    // The index of the search is one chunk.
    build: { chunkSizeWarningLimit: 4_000 },
  },
  themeConfig: {
    logo: '/favicon.svg',
    // In the browser, without a server.
    search: { provider: 'local' },
    outline: [2, 3],
    sidebar,
    nav: [
      { text: 'Quick start', link: '/quick-start' },
      { text: 'Recipes', link: '/recipes' },
      { text: 'Options', link: '/options' },
      { text: 'Production', link: '/production' },
      { text: 'FAQ', link: '/faq' },
      { text: 'API', link: '/api/' },
    ],
    ...(address && {
      socialLinks: [{ icon: 'github', link: address }],
      editLink: { pattern: `${address}/edit/main/docs/:path` },
    }),
  },
});
