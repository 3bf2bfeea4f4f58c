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
  it.each<[string | undefined, string | undefined, boolean]>([
    [undefined, undefined, false],
    [undefined, 'http://a.example:3000', false],
    [undefined, 'http://A.example:3000', false],
    [undefined, 'http://a.example', true],
    [undefined, 'http://b.example:3000', true],
    [undefined, 'null', true],
    ['same-origin', 'http://behind-a-proxy.example', false],
    ['none', undefined, false],
    ['same-site', undefined, true],
    ['cross-site', 'http://a.example:3000', true],
  ])('to a.example:3000 that a browser calls %s, from %s, is of another site: %s', (site, origin, is) => {
    expect(isOfAnotherSite({ host: 'a.example:3000', headers: { 'sec-fetch-site': site, origin } })).toBe(is);
  });

  it.each<[string, string, boolean]>([
    ['a.example:80', 'http://a.example', false],
    ['a.example:443', 'https://a.example', false],
    ['a.example', 'http://a.example:80', false],
    ['a.example:80', 'https://a.example', true],
    ['a.example:80', 'http://b.example', true],
  ])('to %s, from %s, is of another site: %s', (host, origin, is) => {
    expect(isOfAnotherSite({ host, headers: { origin } })).toBe(is);
  });
});

const JSON_BODY = { 'content-type': 'application/json', 'x-lock-board': 'force-release' };

describe('an action', () => {
  it.each<[string, Record<string, string>]>([
    ['of the page itself', { ...JSON_BODY, 'sec-fetch-site': 'same-origin', origin: 'https://b.example' }],
    ['of the page itself, without https', { ...JSON_BODY, origin: 'http://a.example' }],
    ['of a script that is not a browser', JSON_BODY],
  ])('%s is accepted', (_what, headers) => {
    expect(whyNoAction({ host: 'a.example', headers })).toBeUndefined();
  });

  it.each<[string, Record<string, string>, RegExp]>([
    ['without the header of the board', { 'content-type': 'application/json' }, /no header/],
    ['with a form', { ...JSON_BODY, 'content-type': 'application/x-www-form-urlencoded' }, /not JSON/],
    ['typed into the address bar', { ...JSON_BODY, 'sec-fetch-site': 'none' }, /another site/],
    ['of another site', { ...JSON_BODY, 'sec-fetch-site': 'cross-site' }, /another site/],
    ['of another host', { ...JSON_BODY, origin: 'http://b.example' }, /another site/],
  ])('%s is refused', (_what, headers, why) => {
    expect(whyNoAction({ host: 'a.example', headers })).toMatch(why);
  });
});
