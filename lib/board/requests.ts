/** The parts of a request of express or fastify that we use. */
export interface BoardRequest {
  readonly method?: string;
  readonly url?: string;
  readonly originalUrl?: string;
  /** With the port. From X-Forwarded-Host only if the app trusts the proxy: a script that CORS lets in can send that header, too. */
  readonly host?: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** A form of another site cannot send it, and a script of another site only with the consent of this one (CORS). */
const ACTION_HEADER = 'x-lock-board';

/**
 * Whether a request was made by another site, as far as the browser tells. Browsers leave out Sec-Fetch-Site where the app is neither
 * on https nor on the local host, and Origin where a page of the app itself reads.
 */
export function isOfAnotherSite({ headers, host }: BoardRequest): boolean {
  const { 'sec-fetch-site': site, origin } = headers;
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  if (origin === undefined) return false;
  // A browser leaves out the usual port, which a proxy may name.
  const [, scheme = '', place = ''] = /^(https?):\/\/(.+)$/i.exec(String(origin)) ?? [];
  const usual = scheme.toLowerCase() === 'https' ? /:443$/ : /:80$/;
  return place === '' || place.replace(usual, '').toLowerCase() !== host?.replace(usual, '').toLowerCase();
}

/** Why a request is no action of our own page; undefined: it is one. */
export function whyNoAction(request: BoardRequest): string | undefined {
  const { headers } = request;
  if (headers[ACTION_HEADER] === undefined) return `It has no header \`${ACTION_HEADER}\`.`;
  if (!String(headers['content-type']).startsWith('application/json')) return 'Its body is not JSON.';
  if (isOfAnotherSite(request) || headers['sec-fetch-site'] === 'none') {
    return 'It comes from another site, or a proxy that the app does not trust changes the host (`trust proxy`).';
  }
  return undefined;
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
