import { once } from 'node:events';
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { request, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDocsServer } from '../../scripts/docs-server.mjs';

const parent = mkdtempSync(join(tmpdir(), 'docs-server-'));
let server: Server;

beforeAll(async () => {
  const folder = join(parent, 'dist');
  mkdirSync(join(folder, 'guide'), { recursive: true });
  mkdirSync(join(parent, 'dist-other'));
  writeFileSync(join(parent, 'dist-other', 'a.html'), 'other');
  writeFileSync(join(folder, '404.html'), 'missing');
  writeFileSync(join(folder, 'guide', 'index.html'), 'guide');
  writeFileSync(join(folder, 'a b.svg'), 'svg');
  server = createDocsServer(folder).listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterAll(() => {
  server.close();
  rmSync(parent, { recursive: true, force: true });
});

/** Asks for exactly this path: `fetch` would mend it. */
async function get(path: string): Promise<{ status: number | undefined; type: string | undefined }> {
  const asked = request({ port: (server.address() as AddressInfo).port, path, host: '127.0.0.1', agent: false }).end();
  const [response] = await once(asked, 'response');
  response.resume();
  await once(response, 'end');
  return { status: response.statusCode, type: response.headers['content-type'] };
}

describe('the server of the docs site', () => {
  it.each([
    ['/guide/', 200, 'text/html; charset=utf-8'],
    ['/guide/?from=mail', 200, 'text/html; charset=utf-8'],
    ['/a%20b.svg', 200, 'image/svg+xml'],
    ['/guide', 404, 'text/html; charset=utf-8'],
    ['/nothing', 404, 'text/html; charset=utf-8'],
    ['/%', 400, undefined],
    ['/%E0%A4%A', 400, undefined],
    ['/a%00b', 400, undefined],
    ['//', 400, undefined],
    ['/%2e%2e%2fdist-other/a.html', 400, undefined],
  ])('answers %s with %i', async (path, status, type) => {
    expect(await get(path)).toEqual({ status, type });
  });
});
