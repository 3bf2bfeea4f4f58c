import { join } from 'node:path';
import { addressOf, withAbsoluteLinks } from '../../scripts/release.mjs';
import { linkOnSite } from '../../site/repository-links.mjs';
import { root } from './planted.js';

const ADDRESS = 'https://forge.example/owner/locks';

describe('a release', () => {
  it.each([undefined, '', 'owner/locks', { type: 'git' }, { url: 'git+ssh://git@forge.example/owner/locks.git' }])(
    'is refused when `repository` is %j',
    (repository) => {
      expect(() => addressOf({ repository })).toThrow(/package\.json: expected `repository` to be the address/);
    },
  );

  it.each(['git+https://forge.example/owner/locks.git', ADDRESS])('takes the address of %s', (url) => {
    expect(addressOf({ repository: { type: 'git', url } })).toBe(ADDRESS);
    expect(addressOf({ repository: url })).toBe(ADDRESS);
  });

  it.each([
    ['[a](docs/a.md#b)', `[a](${ADDRESS}/blob/v1.2.3/docs/a.md#b)`],
    ['[`a[0]`](lib)', `[\`a[0]\`](${ADDRESS}/blob/v1.2.3/lib)`],
    ['![a](docs/a.svg)', `![a](${ADDRESS}/raw/v1.2.3/docs/a.svg)`],
    ['[a](#b)', '[a](#b)'],
    ['[a](https://b.example/c)', '[a](https://b.example/c)'],
    ['```ts\nlist[0](a)\n```', '```ts\nlist[0](a)\n```'],
  ])('makes the links of %j absolute', (text, expected) => {
    expect(withAbsoluteLinks(text, ADDRESS, '1.2.3')).toBe(expected);
  });
});

describe('a link of a page', () => {
  const on = (href: string, blob?: string) =>
    linkOnSite(href, { page: join(root, 'docs', 'nest.md'), docs: join(root, 'docs'), root, blob });

  it.each(['guarantees.md#fencing', '#jobs', 'https://nodejs.org', 'adr/002-one-lock-one-hash.md', 'missing.md'])(
    '%s stays',
    (href) => {
      expect(on(href)).toEqual({ kind: 'keep' });
    },
  );

  it.each(['../test/README.md', '../lib/index.ts', 'grafana/nestjs-redis-lock.json'])('%s has no page', (href) => {
    expect(on(href)).toEqual({ kind: 'text' });
    const path = href.startsWith('..') ? href.slice(3) : `docs/${href}`;
    expect(on(href, `${ADDRESS}/blob/main`)).toEqual({ kind: 'link', href: `${ADDRESS}/blob/main/${path}` });
  });
});
