import { type LostReply, type WakeUp } from '../../lib/core/store/lock-store.js';
import { type LockMode } from '../../lib/core/lock.errors.js';
import { type MemoryLock } from '../../lib/testing/memory/memory-lock.js';
import { type ReceivedRequest } from '../../lib/testing/memory/memory-queue.js';
import { MemoryLocks } from '../../lib/testing/memory/memory-locks.js';
import {
  type Acquire,
  type Request,
  type Command,
  type Downgrade,
  type ForceRelease,
  type Release,
  MAX_AGE_MS,
  type Renew,
  clientOf,
} from './commands.js';

/** For how long a lock, and a fire, is remembered in a game. */
export interface Kept {
  readonly keepMs: number;
  readonly rememberMs: number;
}

/** A script's reply; the game compares it as text. */
export type Reply = (string | number)[];

/**
 * Locks in memory, to the last field; what a client may rely on is in the reference model. It is the store of the testing
 * kit, in the words of the scripts: so the games show that it behaves as Redis does.
 */
export class ExactModel {
  micros = 0;
  /** What was published since it was taken last, one `client message` each. */
  readonly pushes: string[] = [];
  readonly #locks: MemoryLocks;
  readonly #rememberMs: number;

  constructor(
    private readonly hears: (client: string) => boolean,
    { keepMs, rememberMs }: Kept,
  ) {
    this.#rememberMs = rememberMs;
    const tell = (attempt: string, wakeUp: WakeUp): boolean => {
      const client = clientOf(attempt);
      if (hears(client)) this.pushes.push(`${client} ${messageOf(attempt, wakeUp)}`);
      return hears(client);
    };
    this.#locks = new MemoryLocks(tell, () => this.micros, 0, keepMs);
  }

  lock(key: string): MemoryLock {
    return this.#locks.lock(key);
  }

  reply(command: Command): Reply {
    switch (command.name) {
      case 'acquire':
        return this.#acquire(command);
      case 'release':
        return this.#release(command);
      case 'renew':
        return this.#renew(command);
      case 'downgrade':
        return this.#downgrade(command);
      default:
        return this.#forceRelease(command);
    }
  }

  #acquire({ request, sentMicros }: Acquire): Reply {
    const { attempt, keys } = request;
    const reply = this.#locks.acquire({
      ...receivedRequest(request, this.#rememberMs),
      sentMicros,
      maxAgeMs: MAX_AGE_MS,
    });
    const [{ now, holds }] = keys.map((key) => this.lock(key)) as [MemoryLock];
    if (reply.outcome === 'refused' && reply.reason === 'late') return ['refused', attempt, now, 'late', reply.micros];
    if (reply.outcome === 'refused') return ['refused', attempt, now, reply.reason, reply.claimedBy ?? ''];
    if (reply.outcome === 'busy') {
      const listeners = this.hears(clientOf(attempt)) ? 1 : 0;
      const told = [reply.retryMs, reply.ahead, reply.holder ?? '', reply.owner ?? '', listeners, ''];
      return ['busy', attempt, now, ...told, reply.lastToken!];
    }
    if (reply.outcome !== 'granted') throw new Error(`Unexpected outcome: ${reply.outcome}.`);
    const { fencingTokens, remainingMs, fireMs } = reply;
    if (keys.length > 1) return ['granted', attempt, now, remainingMs, ...fencingTokens];
    return ['granted', attempt, now, fencingTokens[0]!, remainingMs, holds.size, fireMs ?? ''];
  }

  #release({ key, attempt, holdAtLeastMs, job, runOutcome, ...command }: Release): Reply {
    const told = runOutcome === '-' ? undefined : (runOutcome as 'done' | 'failed' | 'void');
    const unanswered = command.unanswered === 1;
    const request = { key, attempt, holdAtLeastMs, leaseMs: 0, job, runOutcome: told, unanswered };
    const reply = this.#locks.release(request);
    return [reply.outcome, attempt, this.lock(key).now, reply.holds, reply.lastToken, ''];
  }

  #renew({ token, ...command }: Renew): Reply {
    const { key, attempt } = command;
    const reply = this.#locks.renew({ ...command, mode: command.mode as LockMode, fencingToken: Number(token) });
    if (reply.outcome === 'renewed') return ['renewed', attempt, this.lock(key).now, reply.remainingMs];
    if (reply.outcome === 'unknown') throw new Error(`Unexpected outcome: ${reply.outcome}.`);
    return this.#lost(key, attempt, reply);
  }

  #downgrade({ key, attempt, token }: Downgrade): Reply {
    const reply = this.#locks.downgrade({ key, attempt, fencingToken: Number(token) });
    if (reply.outcome === 'downgraded') return ['downgraded', attempt, this.lock(key).now];
    return this.#lost(key, attempt, reply);
  }

  #forceRelease({ key, attempt, seenToken }: ForceRelease): Reply {
    const { outcome, holds } = this.#locks.forceRelease(key, attempt, Number(seenToken));
    return [outcome, attempt, this.lock(key).now, holds];
  }

  #lost(key: string, attempt: string, { lastToken, revoked }: LostReply): Reply {
    return ['lost', attempt, this.lock(key).now, lastToken, revoked ? 1 : 0];
  }
}

function messageOf(attempt: string, wakeUp: WakeUp): string {
  if (wakeUp.kind !== 'granted') return `${wakeUp.kind} ${attempt}`;
  const { fencingToken, serverTimeMs, remainingMs } = wakeUp;
  return `granted ${attempt} ${fencingToken} ${serverTimeMs} ${remainingMs}`;
}

function receivedRequest(
  { owner, mode, fair, job, fireKind, ...request }: Request,
  rememberMs: number,
): ReceivedRequest {
  const { fireMs: ms, fireAgeMs: ageMs, rerun } = request;
  const kind = fireKind as 'at' | 'slot' | 'gap';
  const claim = fireKind === '-' ? undefined : { job, kind, ms, ageMs, rememberMs, rerunOnLoss: rerun === 1 };
  return { ...request, owner: owner === '-' ? undefined : owner, mode: mode as LockMode, fair: fair === 1, claim };
}
