// Serves the docs site on this machine, to look at it.
import { createReadStream, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, sep } from 'node:path';

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
};

/** The path of a file in the folder; undefined: no file has such an address. */
function fileOf(folder, url) {
  try {
    const path = decodeURIComponent(new URL(url, 'http://site').pathname);
    const file = join(folder, path.endsWith('/') ? `${path}index.html` : path);
    return path.includes('\0') || !file.startsWith(folder + sep) ? undefined : file;
  } catch {
    return undefined;
  }
}

/**
 * Serves the files of a folder; it has to be told where to listen. The server of VitePress itself listens on all addresses.
 * @param {string} folder
 */
export function createDocsServer(folder) {
  return createServer(({ url = '' }, response) => {
    const file = fileOf(folder, url);
    if (file === undefined) {
      response.writeHead(400).end('There is no such address.\n');
      return;
    }
    const found = statSync(file, { throwIfNoEntry: false })?.isFile() ?? false;
    const sent = found ? file : join(folder, '404.html');
    response.writeHead(found ? 200 : 404, { 'content-type': TYPES[extname(sent)] ?? 'application/octet-stream' });
    createReadStream(sent)
      .on('error', () => response.end())
      .pipe(response);
  });
}
