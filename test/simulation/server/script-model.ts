import { type LockMode } from '../../../lib/core/lock.errors.js';
import { type WakeUp } from '../../../lib/core/store/lock-store.js';
import { type Hold, type MemoryLock } from '../../../lib/testing/memory/memory-lock.js';
import { type MemoryLocks } from '../../../lib/testing/memory/memory-locks.js';
import { type ReceivedRequest } from '../../../lib/testing/memory/memory-queue.js';
import { fieldsOf } from './fields.js';
import { ReplyError } from './reply-error.js';
import { type ScriptCall } from './server-scripts.js';

export type Reply = (string | number)[];

/** Which client listens to what the scripts publish for its attempts. */
export interface ModelListener {
  /** How many listen for this client; sends them the message, if there is one. */
  tell(client: string, message?: string): number;
  micros(): number;
}

export const clientOf = (attempt: string): string => attempt.split('.')[0]!;

/** The scripts of one server, word for word: the exact model of `lib/testing/memory`, behind the operands of the scripts. */
export class ScriptModel {
  readonly locks: MemoryLocks;
  /** Keys under which something other than a lock is stored. */
  readonly foreign = new Set<string>();
  readonly #listener: ModelListener;
  /** Cleared with each command. */
  #channelPrefix = '';

  constructor(Locks: typeof MemoryLocks, listener: ModelListener) {
    this.#listener = listener;
    const tell = (attempt: string, wakeUp: WakeUp): boolean =>
      listener.tell(this.#channelPrefix + clientOf(attempt), messageOf(attempt, wakeUp)) > 0;
    this.locks = new Locks(tell, () => listener.micros());
  }

  run(call: ScriptCall): Reply {
    if (call.keys.some((key) => this.foreign.has(key))) {
      throw new ReplyError('WRONGTYPE Operation against a key holding the wrong kind of value');
    }
    if (call.name !== 'inspect') this.#channelPrefix = call.text('channelPrefix');
    this.locks.forgetUnused();
    return this.#run(call);
  }

  #run(call: ScriptCall): Reply {
    switch (call.name) {
      case 'acquire':
      case 'acquireMany':
        return this.#acquire(call);
      case 'release':
        return this.#release(call);
      case 'renew':
        return this.#renew(call);
      case 'downgrade':
        return this.#downgrade(call);
      case 'forceRelease':
        return this.#forceRelease(call);
      case 'writeBack':
        return this.#writeBack(call);
      default:
        return fieldsOf(this.locks.look(call.keys[0]!));
    }
  }

  #acquire(call: ScriptCall): Reply {
    const { keys } = call;
    const attempt = call.text('attempt');
    const reply = this.locks.acquire(requestOf(call));
    const { now, holds } = this.locks.lock(keys[0]!);
    if (reply.outcome === 'refused') {
      const detail = reply.reason === 'late' ? reply.micros : (reply.claimedBy ?? '');
      return ['refused', attempt, now, reply.reason, detail];
    }
    if (reply.outcome === 'busy') {
      const listeners = this.#listener.tell(this.#channelPrefix + clientOf(attempt));
      const state = [reply.retryMs, reply.ahead, reply.holder ?? '', reply.owner ?? '', listeners, ''];
      return ['busy', attempt, now, ...state, reply.lastToken!];
    }
    if (reply.outcome !== 'granted') throw new Error(`Unexpected outcome: ${reply.outcome}.`);
    const { fencingTokens, remainingMs, fireMs } = reply;
    if (keys.length > 1) return ['granted', attempt, now, remainingMs, ...fencingTokens];
    return ['granted', attempt, now, fencingTokens[0]!, remainingMs, holds.size, fireMs ?? ''];
  }

  #release(call: ScriptCall): Reply {
    const [key, attempt] = [call.keys[0]!, call.text('attempt')];
    const outcome = call.text('runOutcome');
    const job = call.text('job');
    const {
      outcome: reply,
      holds,
      lastToken,
    } = this.locks.release({
      key,
      attempt,
      holdAtLeastMs: call.number('holdAtLeastMs'),
      leaseMs: 0,
      job: job === '-' ? undefined : decodeURIComponent(job),
      runOutcome: outcome === '-' ? undefined : (outcome as 'done' | 'failed' | 'void'),
      unanswered: call.number('unanswered') === 1,
    });
    return [reply, attempt, this.locks.lock(key).now, holds, lastToken, ''];
  }

  #renew(call: ScriptCall): Reply {
    const hold = holdOf(call);
    const reply = this.locks.renew({ ...hold, leaseMs: call.number('leaseMs'), mode: call.text('mode') as LockMode });
    if (reply.outcome === 'lost') return this.#lost(call, reply);
    if (reply.outcome !== 'renewed') throw new Error(`Unexpected outcome: ${reply.outcome}.`);
    return ['renewed', hold.attempt, this.locks.lock(hold.key).now, reply.remainingMs];
  }

  #downgrade(call: ScriptCall): Reply {
    const hold = holdOf(call);
    const reply = this.locks.downgrade(hold);
    if (reply.outcome === 'lost') return this.#lost(call, reply);
    return ['downgraded', hold.attempt, this.locks.lock(hold.key).now];
  }

  #forceRelease(call: ScriptCall): Reply {
    const [key, command] = [call.keys[0]!, call.text('attempt')];
    const { outcome, holds } = this.locks.forceRelease(key, command, call.number('seenToken'));
    return [outcome, command, this.locks.lock(key).now, holds];
  }

  /** The model of the testing kit has no quorum; this is `lib/redis/scripts/write-back.ts`. */
  #writeBack(call: ScriptCall): Reply {
    const { key, attempt, fencingToken } = holdOf(call);
    const newToken = call.number('newToken');
    // Sweeps the lock, and serves what that freed.
    const lost = this.locks.renew({ key, attempt: '-.-', fencingToken: 0, leaseMs: 0, mode: 'write' });
    const lock = this.locks.lock(key);
    const hold: Writable<Hold> | undefined = lock.liveHold(attempt);
    if (!hold || (hold.token !== fencingToken && hold.token !== newToken)) {
      return this.#lost(call, {
        lastToken: lost.outcome === 'lost' ? lost.lastToken : 0,
        revoked: lock.wasRevoked(attempt),
      });
    }
    hold.token = newToken;
    lock.token = Math.max(lock.token, newToken);
    writeEntry(lock, hold, newToken);
    return ['written', attempt, lock.now];
  }

  #lost(call: ScriptCall, { lastToken, revoked }: { readonly lastToken: number; readonly revoked: boolean }): Reply {
    return ['lost', call.text('attempt'), this.locks.lock(call.keys[0]!).now, lastToken, revoked ? 1 : 0];
  }
}

type Writable<T> = { -readonly [Field in keyof T]: T[Field] };

/** The token with which the owner re-enters: that of its only hold, or the greatest of several. */
function writeEntry(lock: MemoryLock, hold: Writable<Hold>, newToken: number): void {
  if (hold.mode === 'write') {
    const writes = [...lock.holds.values()].filter(({ mode, token }) => mode === 'write' && token > 0);
    hold.entry = writes.length === 1 ? newToken : Math.max(hold.entry, newToken);
    return;
  }
  if (hold.owner === undefined) return;
  const readers = lock.ofOwner(hold.owner).filter(({ mode }) => mode === 'read');
  for (const reader of readers) reader.entry = readers.length === 1 ? newToken : Math.max(reader.entry, newToken);
}

const holdOf = (call: ScriptCall) => ({
  key: call.keys[0]!,
  attempt: call.text('attempt'),
  fencingToken: call.number('token'),
});

function requestOf(call: ScriptCall): ReceivedRequest {
  const owner = call.text('owner');
  return {
    keys: call.keys,
    attempt: call.text('attempt'),
    owner: owner === '-' ? undefined : owner,
    mode: call.text('mode') as LockMode,
    leaseMs: call.number('leaseMs'),
    waiterLeaseMs: call.number('waiterLeaseMs'),
    fair: call.number('fair') === 1,
    permits: call.number('permits'),
    holder: call.text('holder'),
    claim: call.name === 'acquire' ? claimOf(call) : undefined,
    sentMicros: call.number('sentMicros'),
    maxAgeMs: call.number('maxAgeMs'),
  };
}

function claimOf(call: ScriptCall): ReceivedRequest['claim'] {
  const kind = call.text('fireKind');
  if (kind === '-') return undefined;
  return {
    kind: kind as 'at' | 'slot' | 'gap',
    job: decodeURIComponent(call.text('job')),
    ms: call.number('fireMs'),
    ageMs: call.number('fireAgeMs'),
    rememberMs: call.number('rememberMs'),
    rerunOnLoss: call.number('rerun') === 1,
  };
}

function messageOf(attempt: string, wakeUp: WakeUp): string {
  if (wakeUp.kind !== 'granted') return `${wakeUp.kind} ${attempt}`;
  return `granted ${attempt} ${wakeUp.fencingToken} ${wakeUp.serverTimeMs} ${wakeUp.remainingMs}`;
}
