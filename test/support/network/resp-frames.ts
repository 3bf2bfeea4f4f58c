/** One complete Redis protocol message, as the bytes that came. */
export interface Frame {
  readonly bytes: Buffer;
  /** The first byte: `*` is an array, `>` a push message. */
  readonly type: string;
}

const AGGREGATES: Record<string, number> = { '*': 1, '~': 1, '>': 1, '%': 2, '|': 2 };

/** Splits a stream into Redis protocol messages (RESP2 and RESP3), however it is chunked. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  /** The messages that are complete with these bytes. */
  push(bytes: Buffer): Frame[] {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    const frames: Frame[] = [];
    let start = 0;
    for (let end = endOfFrame(this.#rest, 0); end >= 0; end = endOfFrame(this.#rest, start)) {
      frames.push({ bytes: this.#rest.subarray(start, end), type: String.fromCharCode(this.#rest[start]!) });
      start = end;
    }
    this.#rest = this.#rest.subarray(start);
    return frames;
  }
}

/** Where the message that starts here ends; -1 while it is incomplete. */
function endOfFrame(bytes: Buffer, start: number): number {
  const lineEnd = bytes.indexOf('\r\n', start) + 2;
  if (lineEnd < 2) return -1;
  const type = String.fromCharCode(bytes[start]!);
  const length = Number(bytes.toString('latin1', start + 1, lineEnd - 2));
  if (type === '$' || type === '=' || type === '!') {
    const end = length < 0 ? lineEnd : lineEnd + length + 2;
    return end <= bytes.length ? end : -1;
  }
  const members = (AGGREGATES[type] ?? 0) * Math.max(0, length);
  // An attribute is a map that stands before the value it belongs to.
  return endOfMembers(bytes, lineEnd, type === '|' ? members + 1 : members);
}

function endOfMembers(bytes: Buffer, start: number, count: number): number {
  let end = start;
  for (let i = 0; i < count && end >= 0; i++) end = endOfFrame(bytes, end);
  return end;
}

/** The words of a command, separated by spaces: `SET a 1`. */
export function commandText(frame: Frame): string {
  const words: string[] = [];
  for (let at = frame.bytes.indexOf('\r\n') + 2; at < frame.bytes.length;) {
    const lineEnd = frame.bytes.indexOf('\r\n', at);
    const length = Number(frame.bytes.toString('latin1', at + 1, lineEnd));
    words.push(frame.bytes.toString('utf8', lineEnd + 2, lineEnd + 2 + length));
    at = lineEnd + 2 + length + 2;
  }
  return words.join(' ');
}
