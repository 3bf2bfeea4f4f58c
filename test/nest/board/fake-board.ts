import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo } from 'node:net';
import { eventText } from '../../../lib/board/live/page-stream.js';
import { pageText } from '../../../lib/board/page/page.js';
import { SCRIPT } from '../../../lib/board/page/script.js';
import { STYLE } from '../../../lib/board/page/style.js';
import { closeLater } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';

/** The page of a board without an app: it shows the states that a test tells it. */
export interface FakeBoard {
  readonly url: string;
  /** Sends an event to the page, as soon as it shows the view. */
  readonly tell: (name: 'state' | 'failed', data: object, view?: 'locks' | 'lock' | 'jobs' | 'losses') => Promise<void>;
}

const FILES: Readonly<Record<string, readonly [string, string]>> = {
  '/locks': ['text/html', pageText('locks/')],
  '/locks/board.js': ['text/javascript', SCRIPT],
  '/locks/board.css': ['text/css', STYLE],
};

/** Starts it; it ends with the test. */
export async function startFakeBoard(): Promise<FakeBoard> {
  /** With the view that each is for. */
  const streams = new Map<ServerResponse, string | null>();
  const server = createServer(({ url = '' }, response) => {
    const [type, text] = FILES[url] ?? ['text/event-stream', undefined];
    response.writeHead(200, { 'content-type': `${type}; charset=utf-8` });
    if (text !== undefined) {
      response.end(text);
      return;
    }
    streams.set(response, new URL(url, 'http://board').searchParams.get('view'));
    response.on('close', () => streams.delete(response));
    response.write(eventText('board', { connection: null, refreshMs: 250, canForceRelease: true }));
  });
  closeLater({ close: async () => server.close().closeAllConnections() });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/locks`,
    tell: async (name, data, view = 'locks') => {
      // The stream of the view before may still be open.
      const [stream] = await eventually(() => [...streams].findLast(([, of]) => of === view));
      stream.write(eventText(name, data));
    },
  };
}

/** A holder as the page gets it. */
export const holderView = (attempt: string, facts: object = {}): object => ({
  attempt,
  instance: 'host:7',
  where: 'Orders.charge',
  note: '',
  mode: 'read',
  since: 0,
  heldMs: 1_000,
  remainingMs: 30_000,
  token: '12',
  ...facts,
});

/** A waiter as the page gets it. */
export const waiterView = (attempt: string, facts: object = {}): object => ({
  attempt,
  instance: 'host:8',
  where: 'Orders.charge',
  note: '',
  mode: 'write',
  place: 1,
  waitedMs: 5_000,
  leftMs: null,
  ...facts,
});

/** A lock as the page gets it, with all of its holders and waiters unless the facts say otherwise. */
export function lockView(key: string, holders: readonly object[], queue: readonly object[] = [], facts = {}): object {
  const counts = { holderCount: holders.length, queueCount: queue.length, waiters: queue.length };
  return { key, mode: 'read', token: '12', permits: null, ...counts, holders, queue, ...facts };
}
