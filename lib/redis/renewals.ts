import { type Outcome } from '../core/store/callback-store.js';
import { type RenewReply, type RenewRequest } from '../core/store/lock-store.js';
import { readRenewReply } from './codec/store-replies.js';

/** Sends one renewal; it may throw. */
type Start = (request: RenewRequest, outcome: Outcome<string[]>) => void;

/**
 * Sends renewals that are asked for together; resolves with their outcomes, in their order. All have one promise: thousands of
 * leases may be renewed in one turn.
 */
export function renewTogether(requests: readonly RenewRequest[], start: Start): Promise<readonly RenewReply[]> {
  if (requests.length === 0) return Promise.resolve([]);
  return new Promise((resolve) => {
    const round = new Round(requests.length, resolve);
    for (const [place, request] of requests.entries()) {
      const renewal = new Renewal(request, place, round);
      try {
        start(request, renewal);
      } catch (cause) {
        renewal.reject(cause);
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

class Renewal implements Outcome<string[]> {
  constructor(
    private readonly request: RenewRequest,
    private readonly place: number,
    private readonly round: Round,
  ) {}

  /** Throws for a reply that cannot be read; then `reject` follows. */
  resolve(reply: string[]): void {
    this.round.settle(this.place, readRenewReply(this.request, reply));
  }

  reject(cause: unknown): void {
    this.round.settle(this.place, { outcome: 'unknown', cause });
  }
}
