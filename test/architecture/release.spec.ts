import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { checkName } from '../../scripts/release.mjs';
import { closeAll, closeLater } from '../support/apps/lock-app.js';
import { rejection } from '../support/waiting/rejection.js';

afterEach(closeAll);

const address = 'https://forge.example/owner/locks';
const ours = { repository: { type: 'git', url: `git+${address}.git` }, versions: { '1.0.0': {} } };

/** A registry with this answer, and its requests. */
async function startRegistry(status: number, answer: unknown) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url!);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closeLater({ close: () => new Promise((resolve) => server.close(resolve).closeAllConnections()) });
  return { asked, registry: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}

const release = { name: 'locks', version: '1.1.0', address };

describe('the name of a release', () => {
  it.each([
    ['is free', 404, { error: 'Not found' }],
    ['belongs to this repository', 200, ours],
  ])('is taken when it %s', async (_case, status, answer) => {
    const { asked, registry } = await startRegistry(status, answer);
    await checkName({ ...release, registry });
    await checkName({ ...release, name: '@owner/locks', registry });
    expect(asked).toEqual(['/locks', '/@owner%2flocks']);
  });

  it.each([
    [
      'a package of another repository',
      200,
      { repository: { url: 'https://forge.example/other/locks' } },
      /other\/locks/,
    ],
    ['a package without a repository', 200, { versions: {} }, /got a package of "no repository"/],
    ['the version already', 200, { ...ours, versions: { '1.1.0': {} } }, /expected a new version, got 1\.1\.0/],
    ['an error', 503, {}, /got status 503\. Nothing is published/],
  ])('is refused when the registry has %s', async (_case, status, answer, text) => {
    const { registry } = await startRegistry(status, answer);
    expect((await rejection(checkName({ ...release, registry }))).message).toMatch(text);
  });

  it('is refused when the registry cannot be reached', async () => {
    const refused = await rejection(checkName({ ...release, registry: 'http://127.0.0.1:1' }));
    expect(refused.message).toMatch(/^http:\/\/127\.0\.0\.1:1\/locks: expected .* got .+ Nothing is published/);
  });
});
