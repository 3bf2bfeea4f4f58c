import { closeLater } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';

/** A page that listens to the server-sent events of a board. */
export interface Page {
  readonly headers: Headers;
  /** Resolves to what `select` gives for the next such event for which it gives something; no event counts twice. */
  next(name: string, select: (data: any) => any): Promise<any>;
  /** Resolves when the app has ended the stream. */
  ended(): Promise<void>;
}

/** Opens a stream; it is closed with the test. */
export async function readPage(url: string): Promise<Page> {
  const client = new AbortController();
  closeLater({ close: async () => client.abort() });
  const response = await fetch(url, { signal: client.signal });
  const events: { readonly name: string; readonly data: unknown }[] = [];
  let isEnded = false;
  void readEvents(response, (name, data) => events.push({ name, data })).then(
    () => (isEnded = true),
    () => undefined,
  );
  return {
    headers: response.headers,
    next: (name, select) =>
      eventually(
        () => {
          for (let event = events.shift(); event; event = events.shift()) {
            const selected: unknown = event.name === name && select(event.data);
            if (selected) return selected;
          }
          return false;
        },
        // A board pauses for four times as long as an answer took, which is seconds on a busy machine.
        { timeoutMs: 20_000 },
      ),
    ended: async () => void (await eventually(() => isEnded)),
  };
}

async function readEvents(response: Response, add: (name: string, data: unknown) => void): Promise<void> {
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body!) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    const parts = text.split('\n\n');
    text = parts.pop()!;
    for (const part of parts) {
      const fields = new Map(part.split('\n').map((line) => line.split(/: (.*)/s) as [string, string]));
      add(fields.get('event')!, JSON.parse(fields.get('data')!));
    }
  }
}
