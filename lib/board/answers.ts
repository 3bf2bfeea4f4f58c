import { type RawResponse } from './live/page-stream.js';

/** The parts of a response of express or fastify that we use. */
export interface BoardResponse {
  /** With fastify: the response of Node. */
  readonly raw?: RawResponse;
  /** With fastify: says that it is answered by other means. */
  hijack?(): unknown;
}

/** No scripts, styles or images but those of the board; no frames around it, and no form of it leads anywhere. */
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

/** The headers of every answer of the board. */
const HEADERS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
};

/**
 * The response of Node, which is the same on all platforms. Interceptors of the app, which may wrap what routes return, do not touch
 * what is written to it.
 */
function rawOf(response: BoardResponse): RawResponse {
  response.hijack?.();
  return response.raw ?? (response as unknown as RawResponse);
}

/** Answers with a text. */
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

/** Begins an answer of server-sent events. Neither a proxy nor a compression may hold them back. */
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
