import { hostname } from 'node:os';
import { printable } from '../printable.js';

/** The caller that holds a lock or waits for it, as texts show it. */
export interface LockCaller {
  readonly host: string;
  readonly pid: number;
  /** `Class.method` if a decorator acquired it, otherwise empty. */
  readonly where: string;
  /** The `note` of the call; empty without one. */
  readonly note: string;
}

/** The host of this process, as stores name it: only the beginning of a long name. */
export const ownHost = (): string => hostname().slice(0, 40);

/** Separates the parts of a text; only the last part may contain it. */
const TAB = '\t';

/**
 * Writes the texts by which a store names its callers: `host:pid Class.method`, then, each after a tab and only if needed, for how
 * long the call waits, in milliseconds (empty: not at all, or forever), and its note. A text has one line.
 */
export class HolderTexts {
  /** `instance`: `host:pid`. */
  constructor(private readonly instance: string) {}

  of(where: string, waitMs: number, note: string): string {
    // The name of a method may be any text.
    const name = where ? `${this.instance} ${where.replaceAll(/\s/g, ' ')}` : this.instance;
    const wait = waitMs > 0 && waitMs < Infinity ? String(waitMs) : '';
    if (note) return [name, wait, note.replaceAll('\n', ' ')].join(TAB);
    return wait ? name + TAB + wait : name;
  }
}

/** Reads the text by which a store names a caller. A custom store gets this text in the request. */
export function readHolderText(text: string): LockCaller {
  const [name = '', , ...note] = text.split(TAB);
  const [instance = '', ...where] = name.split(' ');
  const colon = instance.lastIndexOf(':');
  return {
    host: instance.slice(0, Math.max(colon, 0)),
    pid: Number(instance.slice(colon + 1)),
    where: where.join(' '),
    note: note.join(TAB),
  };
}

/** The note of a caller; undefined without one. */
export function noteIn(text: string): string | undefined {
  const waitMs = text.indexOf(TAB) + 1;
  const note = waitMs && text.indexOf(TAB, waitMs) + 1;
  return note ? text.slice(note) || undefined : undefined;
}

/** When a caller that began to wait at `since` (milliseconds since the epoch) gives up; null: never, or unknown. */
export function waitsUntil(text: string, since: number): Date | null {
  const waitMs = /^[^\t]*\t(\d+)/.exec(text)?.[1];
  const until = new Date(since + Number(waitMs));
  return Number.isNaN(until.getTime()) ? null : until;
}

/** The caller as errors and events name it: `host:pid Class.method (note)`. */
export function nameOfHolder(text: string | undefined): string | undefined {
  if (!text?.includes(TAB)) return text;
  const { note } = readHolderText(text);
  const name = text.slice(0, text.indexOf(TAB));
  return note ? `${name} (${printable(note)})` : name;
}
