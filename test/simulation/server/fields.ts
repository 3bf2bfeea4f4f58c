import { type Look } from '../../../lib/testing/memory/memory-state.js';

/** The reply of the inspect script: the time, and those fields of the hash that a reader uses (scripts/parts/state.ts). */
export function fieldsOf({ lock, now }: Look): (string | number)[] {
  const fields: (string | number)[] = [now, 'token', lock.token];
  for (const [attempt, { deadline, lease, mode, token, since, owner, holder }] of lock.holds) {
    fields.push(`hold:${attempt}`, [deadline, lease, mode, token, since, owner ?? '-'].join(' '));
    fields.push(`id:${attempt}`, holder);
  }
  for (const { place, deadline, attempt, holder } of lock.queue.waiters) {
    fields.push(`queue:${place}`, `${deadline}`, `id:${attempt}`, holder);
  }
  for (const [job, { run }] of lock.jobs) {
    if (!run) continue;
    const name = encodeURIComponent(job);
    const { fire, attempt, started, ended, outcome, by } = run;
    fields.push(`run:${name}`, [fire, attempt, started, ended, outcome ?? '-'].join(' '), `run:by:${name}`, by);
  }
  return fields;
}
