import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { currentLock, Locked } from 'nestjs-redis-lock';
import { INSTANCE } from '../instance.js';

const SEND_MS = 1_500;

/** Who sent an issue. */
export interface Delivery {
  readonly instance: string;
  readonly fencingToken: number;
}

/** Sends each issue once, no matter how many instances are asked to. */
@Injectable()
export class NewsletterService {
  /** Returns undefined when another instance sends this issue, or has sent it. */
  @Locked('newsletter', { oncePer: (issue: Date) => issue })
  async send(_issue: Date): Promise<Delivery | undefined> {
    const { fencingToken, signal } = currentLock();
    await sleep(SEND_MS, undefined, { signal });
    return { instance: INSTANCE, fencingToken };
  }
}
