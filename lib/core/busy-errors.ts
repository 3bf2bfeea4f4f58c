import { type LockName, nodesText } from './error-texts.js';
import { LockBusyError, type LockErrorDetails, LockWaitTimeoutError } from './lock.errors.js';
import { durationText } from './printable.js';
import { nameOfHolder } from './store/holder-text.js';
import { type AcquireReply } from './store/lock-store.js';

/** The parts of a `busy` reply that the texts use. `perInstance`: this process has all permits that it may have. */
type Busy = Pick<Extract<AcquireReply, { outcome: 'busy' }>, 'holder' | 'ahead' | 'nodes' | 'owner' | 'permits'> & {
  readonly perInstance?: number;
};

/** The call that finds a lock busy: how a store names it, and its attempt. */
export interface Asker {
  readonly holder: string;
  readonly attempt: string;
}

export function busyError(name: LockName, busy: Omit<Busy, 'ahead'>, asker?: Asker): LockBusyError {
  const { key, mode } = name;
  const { nodes } = busy;
  const { full, ...limit } = limitOf(name, busy);
  const state = full ? `busy: ${full}` : `held${holderText(busy, asker)}`;
  const text =
    `The lock "${key}" (${mode}) is ${state}, and the call does not wait. Try later, or let it wait (\`waitMs\`, and for a ` +
    `method \`ifBusy: 'wait'\`).${nodesText(nodes)}`;
  return new LockBusyError(text, { key, mode, nodes, ...limit });
}

/** The call may wait, but the number of other waiters has reached its `maxWaiters`. */
export function queueFullError({ key, mode }: LockName, maxWaiters: number): LockBusyError {
  const waiters = maxWaiters === 1 ? 'another call waits' : `${maxWaiters} other calls wait`;
  const text = `The lock "${key}" (${mode}) is busy, and ${waiters} already. Try later, or accept more (\`maxWaiters\`).`;
  return new LockBusyError(text, { key, mode, maxWaiters });
}

export function waitTimeoutError(name: LockName, waitedMs: number, busy: Busy, asker?: Asker): LockWaitTimeoutError {
  const { key, mode } = name;
  const { ahead, nodes } = busy;
  const holder = nameOfHolder(busy.holder);
  const { full, ...limit } = limitOf(name, busy);
  const state = full ? `: ${full}` : holder ? `, held${holderText(busy, asker)}` : '';
  const text =
    `The lock "${key}" (${mode}) was still busy after ${durationText(waitedMs)}${state}` +
    `${ahead > 0 ? `, with ${ahead} waiting ahead` : ''}. Wait longer (\`waitMs\`), or hold it for less time.${nodesText(nodes)}`;
  return new LockWaitTimeoutError(text, { key, mode, waitedMs, holder, nodes, ...limit });
}

/** In a container, a restarted process has the same name as its predecessor; two modules of one process share a name. */
function holderText({ holder, owner }: Omit<Busy, 'ahead'>, asker: Asker | undefined): string {
  if (holder === undefined) return '';
  const text = ` by ${nameOfHolder(holder)}`;
  const isNamesake =
    asker !== undefined &&
    instanceIn(holder) === instanceIn(asker.holder) &&
    // Otherwise it is the name of an owner, which any process may use.
    owner?.length === asker.attempt.length &&
    clientIn(owner) !== clientIn(asker.attempt);
  return isNamesake ? `${text} (another instance of the same name)` : text;
}

const instanceIn = (holder: string): string => holder.split(/[ \t]/, 1)[0]!;
const clientIn = (attempt: string): string => attempt.slice(0, attempt.lastIndexOf('.'));

interface ReachedLimit extends Pick<LockErrorDetails, 'permits' | 'perInstance'> {
  readonly full?: string;
}

/** A store names only writers. Without a writer, the permits are taken, or a waiting writer holds readers back. */
function limitOf(
  { mode, permits: ofCall, take = 1 }: LockName,
  { holder, owner, perInstance, permits: ofKey }: Omit<Busy, 'ahead'>,
): ReachedLimit {
  if (perInstance)
    return { perInstance, full: `this instance has all permits that it may have (\`perInstance: ${perInstance}\`)` };
  const permits = (mode === 'read' && ofKey) || ofCall;
  if (!permits || holder || owner) return {};
  if (take > 1) return { permits, full: `fewer than ${take} of its ${permits} permits are free` };
  return { permits, full: permits === 1 ? 'its only permit is taken' : `all ${permits} permits are taken` };
}

/** The call takes more permits than an operator has allowed. */
export function exceededPermitsError({ key, mode, take = 1 }: LockName, permits: number): LockBusyError {
  const state = permits === 0 ? 'closed: it has 0 permits' : `busy: the call takes ${take} of ${permits} permits`;
  const text = `The lock "${key}" (${mode}) is ${state} (\`setPermits\`). Set more, or try later.`;
  return new LockBusyError(text, { key, mode, permits });
}
