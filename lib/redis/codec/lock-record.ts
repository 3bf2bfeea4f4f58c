import { type LockMode } from '../../core/lock.errors.js';
import { ReplyParts } from './reply-parts.js';
import { readHolderText, waitsUntil } from '../../core/store/holder-text.js';
import { modeOf, permitsOf } from '../../core/store/lock-state.js';
import { type LastRun, type LockHolder, type LockState, type LockWaiter } from '../../core/store/lock-state.js';

/** Reads the reply of the inspect script: the server's time, then the fields of the hash (scripts/parts/state.ts). */
export function readLockState(key: string, reply: readonly string[]): LockState {
  const parts = new ReplyParts(key, reply, false);
  const now = parts.whole(0);
  const fields = fieldsOf(parts, reply);
  const holders: LockHolder[] = [];
  const places: [sequence: number, record: string][] = [];
  for (const [field, value] of fields) {
    if (field.startsWith('queue:')) {
      if (!WAITER.test(value)) parts.refuse();
      if (Number(value.split(' ')[0]) > now) places.push([Number(field.slice('queue:'.length)), value]);
    }
    if (!field.startsWith('hold:')) continue;
    const attempt = field.slice('hold:'.length);
    if (!HOLD.test(value)) parts.refuse();
    const holder = readHolder(attempt, value, fields.get(`id:${attempt}`) ?? '', now);
    if (holder.remainingMs > 0) holders.push(holder);
  }
  const queue = places.sort(([a], [b]) => a - b).map(([, record], i) => readWaiter(record, i + 1, fields));
  const fencingToken = new ReplyParts(key, [fields.get('token') ?? '0'], false).whole(0);
  const permits = readPermits(
    new ReplyParts(key, [fields.get('permits') ?? fields.get('limit') ?? '0'], false),
    fields,
    holders,
  );
  return { key, mode: modeOf(holders), holders, waiters: queue.length, queue, permits, fencingToken };
}

const readPermits = (parts: ReplyParts, fields: ReadonlyMap<string, string>, holders: readonly LockHolder[]) =>
  permitsOf(holders, parts.whole(0), fields.has('permits'));

/** `deadline lease mode token since owner`; the mode is followed by the permits, and the owner is percent-encoded. */
const HOLD = /^\d+ \d+ (?:read|write)\d{0,6} \d+ \d+ (?:[^\s%]|%[0-9A-F]{2})+$/;

/** `deadline waiter-lease mode fair permits lease owner attempt`. */
const WAITER = /^\d+ \d+ (?:read|write)\d{0,6} [012] \d+ \d+ (?:[^\s%]|%[0-9A-F]{2})+ \S+$/;

const RUN = /^run:(?!by:)(?<job>.+)$/u;

/** Reads the last run of each job from the same reply. */
export function readRuns(key: string, reply: readonly string[]): readonly LastRun[] {
  const parts = new ReplyParts(key, reply, false);
  const now = parts.whole(0);
  const fields = fieldsOf(parts, reply);
  return [...fields].flatMap(([field, run]) => {
    const job = RUN.exec(field)?.groups?.['job'];
    if (job === undefined) return [];
    if (!RECORD.test(run)) parts.refuse();
    return [readRun(job, run, fields, now)];
  });
}

/** `fire attempt started ended outcome`, with times that a date can have. */
const RECORD = /^\d{1,15} \S+ \d{1,15} \d{1,15} \S+$/;

function readRun(job: string, run: string, fields: ReadonlyMap<string, string>, now: number): LastRun {
  const [fire, attempt, started, ended, outcome] = run.split(' ');
  const [deadline, , , token] = (fields.get(`hold:${attempt}`) ?? '0').split(' ');
  const holds = Number(deadline) > now && token !== '0';
  return {
    job: decoded(job),
    fire: new Date(Number(fire)),
    instance: fields.get(`run:by:${job}`) ?? '',
    attempt: attempt!,
    started: new Date(Number(started)),
    ended: outcome === '-' ? null : new Date(Number(ended)),
    outcome: outcome === 'done' || outcome === 'failed' ? outcome : holds ? 'running' : 'lost',
  };
}

/** The fields of the hash, those of a packed lock as if it was not packed. */
function fieldsOf(parts: ReplyParts, reply: readonly string[]): Map<string, string> {
  const fields = new Map<string, string>();
  for (let i = 1; i + 1 < reply.length; i += 2) fields.set(reply[i]!, reply[i + 1]!);
  const packed = fields.get('s');
  if (packed === undefined) return fields;
  const { token, deadline, lease, attempt } = PACKED.exec(packed)?.groups ?? parts.refuse();
  fields.set('token', token!);
  if (attempt === undefined) return fields;
  const since = Math.floor(Number(token) / 1_000);
  return fields
    .set(`hold:${attempt}`, `${deadline} ${Number(lease)} write ${token} ${since} -`)
    .set(`id:${attempt}`, fields.get('by') ?? '');
}

/** The value of `s`. */
const PACKED = /^1(?<token>\d{16})(?:(?<deadline>\d{13})(?<lease>\d{10})(?<attempt>.+))?$/;

function readHolder(attempt: string, record: string, id: string, now: number): LockHolder {
  const [deadline, lease, mode, token, since, owner] = record.split(' ');
  return {
    owner: owner === '-' ? attempt : decoded(owner!),
    attempt,
    ...readMode(mode!),
    ...readHolderText(id),
    since: new Date(Number(since)),
    // More may be left than was granted when the server's clock was set back; the next script clamps it.
    remainingMs: Math.max(0, Math.min(Number(deadline) - now, Number(lease))),
    fencingToken: Number(token),
  };
}

/** The mode, and behind it the permits if there are several. */
const readMode = (text: string): { readonly mode: LockMode; readonly take: number } => ({
  mode: text.replace(/\d+$/, '') as LockMode,
  take: Number(/\d+$/.exec(text)?.[0] ?? 1),
});

function readWaiter(record: string, place: number, fields: ReadonlyMap<string, string>): LockWaiter {
  const [, , mode, , , , owner, attempt] = record.split(' ');
  const text = fields.get(`id:${attempt}`) ?? '';
  const since = Number(fields.get(`place:${attempt}`)?.split(' ')[1] ?? 0);
  return {
    owner: owner === '-' ? attempt! : decoded(owner!),
    attempt: attempt!,
    ...readMode(mode!),
    ...readHolderText(text),
    place,
    since: new Date(since),
    until: waitsUntil(text, since),
  };
}

/** What is no percent code that we wrote stays as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
