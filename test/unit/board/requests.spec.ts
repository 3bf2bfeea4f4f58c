import { isOfAnotherSite, linkBase, whyNoAction } from '../../../lib/board/requests.js';

describe('the links of the page', () => {
  it.each<[string, string, string]>([
    ['/locks', 'locks', 'locks/'],
    ['/locks/', 'locks', ''],
    ['/locks/index.html', 'locks', ''],
    ['/api/v1/admin/locks', 'admin/locks', 'locks/'],
    ['/seen/through/a/proxy/', 'locks', ''],
    ['/Locks', 'locks', 'locks/'],
    ['/ops/locks', 'Ops/Locks', 'Locks/'],
    ['/locks/index.html/', 'locks', '../'],
  ])('of %s, mounted at %s, begin with "%s"', (originalUrl, path, base) => {
    expect(linkBase({ originalUrl, url: '/elsewhere', headers: {} }, path)).toBe(base);
    expect(linkBase({ url: originalUrl, headers: {} }, path)).toBe(base);
  });
});

describe('a request', () => {
  it.each<[string | undefined, boolean]>([
    [undefined, false],
    ['same-origin', false],
    ['none', false],
    ['same-site', true],
    ['cross-site', true],
  ])('that a browser calls %s is of another site: %s', (site, is) => {
    expect(isOfAnotherSite({ headers: { 'sec-fetch-site': site } })).toBe(is);
  });
});

const JSON_BODY = { 'content-type': 'application/json', 'x-lock-board': 'force-release' };

describe('an action', () => {
  it.each<[string, Record<string, string>]>([
    [
      'of the page itself',
      { ...JSON_BODY, 'sec-fetch-site': 'same-origin', origin: 'https://a.example', host: 'b:80' },
    ],
    ['of the page itself, without https', { ...JSON_BODY, origin: 'http://a.example:3000', host: 'a.example:3000' }],
    ['behind a proxy', { ...JSON_BODY, origin: 'http://a.example', host: 'app:80', 'x-forwarded-host': 'a.example' }],
    [
      'behind two proxies',
      { ...JSON_BODY, origin: 'http://a.example', host: 'app:80', 'x-forwarded-host': 'a.example, b.example' },
    ],
    ['of a script that is no browser', JSON_BODY],
  ])('%s is accepted', (_what, headers) => {
    expect(whyNoAction({ headers })).toBeUndefined();
  });

  it.each<[string, Record<string, string>, RegExp]>([
    ['without the header of the board', { 'content-type': 'application/json' }, /no header/],
    ['with a form', { ...JSON_BODY, 'content-type': 'application/x-www-form-urlencoded' }, /not JSON/],
    ['typed into the address bar', { ...JSON_BODY, 'sec-fetch-site': 'none' }, /another site/],
    ['of another site', { ...JSON_BODY, 'sec-fetch-site': 'cross-site' }, /another site/],
    ['of another host', { ...JSON_BODY, origin: 'http://b.example', host: 'a.example' }, /another host/],
    [
      'of the host that is only that of the second proxy',
      { ...JSON_BODY, origin: 'http://b.example', host: 'app', 'x-forwarded-host': 'a.example, b.example' },
      /another host/,
    ],
    ['of no origin', { ...JSON_BODY, origin: 'null', host: 'a.example' }, /another host/],
  ])('%s is refused', (_what, headers, why) => {
    expect(whyNoAction({ headers })).toMatch(why);
  });
});
