import { type Rng } from '../world/rng.js';

/** How a network behaves at its best; each time in milliseconds. */
export interface NetworkSettings {
  readonly delayMin: number;
  readonly delayMax: number;
  /** How often a packet is lost and sent again, and how long that takes at most. */
  readonly resend: number;
  readonly resendMax: number;
}

/** The way between a process and a server. TCP sends again what is lost: a cut only delays, until something gives up. */
export class Link {
  /** Until when nothing gets through, to the server and from it. */
  cutUp = 0;
  cutDown = 0;
  /** Until when each packet takes up to `slowMs` more. */
  slowUntil = 0;
  slowMs = 0;
  /** Nothing is lost any more. */
  isCalm = false;

  constructor(private readonly settings: NetworkSettings) {}

  /** When a packet arrives that is sent now in this direction. */
  arrival(now: number, direction: 'up' | 'down', rng: Rng): number {
    const cutUntil = direction === 'up' ? this.cutUp : this.cutDown;
    return Math.max(now, cutUntil) + this.#delay(now, rng);
  }

  #delay(now: number, rng: Rng): number {
    const { delayMin, delayMax, resend, resendMax } = this.settings;
    const usual = rng.float(delayMin, delayMax);
    const resent = !this.isCalm && rng.chance(resend) ? rng.skewed(0, resendMax) : 0;
    return usual + resent + (this.slowUntil > now ? rng.float(0, this.slowMs) : 0);
  }
}
