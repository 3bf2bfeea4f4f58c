/** A reply that is sent as it is, well-formed or not. */
export class Raw {
  readonly bytes: Buffer;

  constructor(text: string) {
    this.bytes = Buffer.from(text, 'latin1');
  }
}

/** A reply of a server: a string is a bulk string, a number an integer, `null` is nil, an `Error` an error reply. */
export type Reply = string | number | null | Error | Raw | readonly Reply[];

/** Writes a reply in the Redis protocol (RESP2). */
export function encode(reply: Reply): Buffer {
  if (reply instanceof Raw) return reply.bytes;
  if (reply === null) return Buffer.from('$-1\r\n');
  if (typeof reply === 'number') return Buffer.from(`:${reply}\r\n`);
  if (reply instanceof Error) return Buffer.from(`-${reply.message}\r\n`);
  if (typeof reply === 'string') return Buffer.from(`$${Buffer.byteLength(reply)}\r\n${reply}\r\n`);
  return Buffer.concat([Buffer.from(`*${reply.length}\r\n`), ...reply.map(encode)]);
}

/** Splits a stream into commands: arrays of bulk strings. */
export class CommandReader {
  #rest: Buffer = Buffer.alloc(0);

  /** The commands that are complete with these bytes. */
  push(bytes: Buffer): string[][] {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    const commands: string[][] = [];
    for (let command = this.#next(); command; command = this.#next()) commands.push(command);
    return commands;
  }

  #next(): string[] | undefined {
    const header = this.#line(0);
    if (!header) return undefined;
    const words: string[] = [];
    let at = header.end;
    for (let left = header.length; left > 0; left -= 1) {
      const line = this.#line(at);
      if (!line || line.end + line.length + 2 > this.#rest.length) return undefined;
      words.push(this.#rest.toString('utf8', line.end, line.end + line.length));
      at = line.end + line.length + 2;
    }
    this.#rest = this.#rest.subarray(at);
    return words;
  }

  /** The number in a line such as `*3` or `$5`, and where the line ends. */
  #line(start: number): { readonly length: number; readonly end: number } | undefined {
    const end = this.#rest.indexOf('\r\n', start);
    if (end < 0) return undefined;
    return { length: Number(this.#rest.toString('latin1', start + 1, end)), end: end + 2 };
  }
}
