import { type RawResponse } from './live.js';

/** The parts of a response of express or fastify that we use. */
export interface BoardResponse {
  /** With fastify: the response of Node. */
  readonly raw?: RawResponse;
  /** With fastify: marks the request as answered outside of fastify. */
  hijack?(): unknown;
}

/** Only scripts, styles and images of the board; no frames around it, and no form submissions. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
].join('; ');

const HEADERS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
};

/**
 * The response of Node, which is the same on all platforms. Interceptors of the app, which may wrap the results of routes, do not
 * affect what is written to it.
 */
function rawOf(response: BoardResponse): RawResponse {
  response.hijack?.();
  return response.raw ?? (response as unknown as RawResponse);
}

export function answer(response: BoardResponse, type: string, text: string, status = 200): void {
  const raw = rawOf(response);
  raw.writeHead(status, {
    ...HEADERS,
    'content-type': `${type}; charset=utf-8`,
    'content-length': Buffer.byteLength(text),
  });
  raw.end(text);
}

export const answerJson = (response: BoardResponse, body: object, status = 200): void =>
  answer(response, 'application/json', JSON.stringify(body), status);

export const refuseRequest = (response: BoardResponse, status: number, error: string): void =>
  answerJson(response, { error }, status);

/** Begins a response of server-sent events. Neither proxies nor compression may buffer it. */
export function beginEvents(response: BoardResponse): RawResponse {
  const raw = rawOf(response);
  raw.writeHead(200, {
    ...HEADERS,
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store, no-transform',
    'x-accel-buffering': 'no',
  });
  return raw;
}

/** The parts of a request of express or fastify that we use. */
export interface BoardRequest {
  readonly method?: string;
  readonly url?: string;
  readonly originalUrl?: string;
  /** With the port. From X-Forwarded-Host only if the app trusts the proxy: a script that CORS admits can also send that header. */
  readonly host?: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** A form on another site cannot send it, and a script of another site only with the consent of this one (CORS). */
const ACTION_HEADER = 'x-lock-board';

/**
 * Whether a request was made by another site, according to the browser. Browsers omit Sec-Fetch-Site where the app is neither
 * on https nor on the local host, and Origin where a page of the app itself reads.
 */
export function isOfAnotherSite({ headers, host }: BoardRequest): boolean {
  const { 'sec-fetch-site': site, origin } = headers;
  if (site !== undefined) return site !== 'same-origin' && site !== 'none';
  if (origin === undefined) return false;
  // A browser omits the default port, which a proxy may include.
  const [, scheme = '', place = ''] = /^(https?):\/\/(.+)$/i.exec(String(origin)) ?? [];
  const usual = scheme.toLowerCase() === 'https' ? /:443$/ : /:80$/;
  return place === '' || place.replace(usual, '').toLowerCase() !== host?.replace(usual, '').toLowerCase();
}

/** Why a request is not an action of our page; undefined if it is one. */
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
 * Returns the prefix of the links of the page, so that they work under a global prefix, behind a proxy and with a trailing
 * slash: relative to `…/locks` they need the name of that folder. An app may accept a path in any case, and any path with a slash.
 */
export function linkBase({ originalUrl, url = '' }: BoardRequest, path: string): string {
  const [pathname = ''] = (originalUrl ?? url).toLowerCase().split('?');
  if (pathname.endsWith('/index.html/')) return '../';
  const folder = path.slice(path.lastIndexOf('/') + 1);
  return pathname.endsWith(`/${folder.toLowerCase()}`) ? `${folder}/` : '';
}
