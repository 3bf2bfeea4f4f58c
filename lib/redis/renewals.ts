import { type RenewReply, type RenewRequest } from '../core/store/lock-store.js';
import { type Operation, type ScriptCalls } from './codec/script-calls.js';
import { readRenewReply } from './codec/store-replies.js';
import { PendingOperation } from './operation-batch.js';
import { type OperationBatches } from './operation-batches.js';

/** What renewals are sent with. */
interface RenewalParts {
  readonly calls: ScriptCalls;
  readonly batches: OperationBatches;
}

/**
 * Sends renewals that are asked for together; resolves with their outcomes, in their order. All have one promise: thousands of
 * leases may be renewed in one turn.
 */
export function renewTogether(
  requests: readonly RenewRequest[],
  { calls, batches }: RenewalParts,
): Promise<readonly RenewReply[]> {
  if (requests.length === 0) return Promise.resolve([]);
  return new Promise((resolve) => {
    const round = new Round(requests.length, resolve);
    for (const [place, request] of requests.entries()) {
      try {
        batches.start(new PendingRenewal(calls.renew(request), request, place, round));
      } catch (cause) {
        round.settle(place, { outcome: 'unknown', cause });
      }
    }
  });
}

class Round {
  readonly #replies: RenewReply[] = [];

  constructor(
    private missing: number,
    private readonly resolve: (replies: readonly RenewReply[]) => void,
  ) {}

  settle(place: number, reply: RenewReply): void {
    this.#replies[place] = reply;
    this.missing -= 1;
    if (this.missing === 0) this.resolve(this.#replies);
  }
}

class PendingRenewal extends PendingOperation {
  constructor(
    readonly operation: Operation,
    private readonly request: RenewRequest,
    private readonly place: number,
    private readonly round: Round,
  ) {
    super();
  }

  resolve(reply: string[]): void {
    this.round.settle(this.place, readRenewReply(this.request, reply));
  }

  reject(cause: unknown): void {
    this.round.settle(this.place, { outcome: 'unknown', cause });
  }
}
