/** Opens a stream of server-sent events, and returns the data of the first event of this name. */
export async function readEvent<Data>(url: string, name = 'message'): Promise<Data> {
  const response = await fetch(url, { signal: AbortSignal.timeout(10_000) });
  if (!response.ok) throw new Error(`${url} answered with ${response.status}.`);
  let text = '';
  const decoder = new TextDecoder();
  for await (const part of response.body!) {
    text += decoder.decode(part as Uint8Array, { stream: true });
    for (const event of text.split('\n\n').slice(0, -1)) {
      const fields = new Map(
        event.split('\n').map((line) => [line.split(':', 1)[0], line.slice(line.indexOf(':') + 1)]),
      );
      if ((fields.get('event') ?? 'message').trim() !== name) continue;
      return JSON.parse(fields.get('data')!) as Data;
    }
  }
  throw new Error(`The stream of ${url} ended without the event ${name}.`);
}
