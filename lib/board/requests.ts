/** The parts of a request of express or fastify that we use. */
export interface BoardRequest {
  readonly method?: string;
  readonly url?: string;
  readonly originalUrl?: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** A form of another site cannot send it, and a script of another site only with the consent of this one (CORS). */
const ACTION_HEADER = 'x-lock-board';

/** Whether a request was made by another site, as far as the browser tells. */
export function isOfAnotherSite({ headers }: BoardRequest): boolean {
  const site = headers['sec-fetch-site'];
  return site !== undefined && site !== 'same-origin' && site !== 'none';
}

/** Why a request is no action of our own page; undefined: it is one. */
export function whyNoAction(request: BoardRequest): string | undefined {
  const { headers } = request;
  if (headers[ACTION_HEADER] === undefined) return `It has no header \`${ACTION_HEADER}\`.`;
  if (!String(headers['content-type']).startsWith('application/json')) return 'Its body is not JSON.';
  if (isOfAnotherSite(request) || headers['sec-fetch-site'] === 'none') return 'It comes from another site.';
  // Browsers leave out Sec-Fetch-Site where the app is neither on https nor on the local host.
  if (headers['sec-fetch-site'] === undefined && !isOfThisHost(headers)) return 'It comes from another host.';
  return undefined;
}

/**
 * A proxy tells the host that the browser knows as X-Forwarded-Host; of several proxies, the first one does. A script of another site
 * cannot set that header.
 */
function isOfThisHost(headers: BoardRequest['headers']): boolean {
  const { origin } = headers;
  if (origin === undefined) return true;
  const [forwarded = ''] = String(headers['x-forwarded-host'] ?? '').split(',');
  try {
    return [headers['host'], forwarded.trim()].includes(new URL(String(origin)).host);
  } catch {
    return false;
  }
}

/**
 * Returns what the links of the page begin with, so that they work under a global prefix, behind a proxy and with a slash at the
 * end: relative to `…/locks` they need the name of that folder. An app may take a path in any case, and any path with a slash.
 */
export function linkBase({ originalUrl, url = '' }: BoardRequest, path: string): string {
  const [pathname = ''] = (originalUrl ?? url).toLowerCase().split('?');
  if (pathname.endsWith('/index.html/')) return '../';
  const folder = path.slice(path.lastIndexOf('/') + 1);
  return pathname.endsWith(`/${folder.toLowerCase()}`) ? `${folder}/` : '';
}
