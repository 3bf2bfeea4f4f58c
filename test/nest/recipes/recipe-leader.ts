import { Injectable } from '@nestjs/common';
import { Leader, type LeaderHooks, leadershipOf, type LeaderTerm } from '../../../lib/index.js';

/** One instance reads the feed; when it ends or dies, another continues. */
@Leader('feed', { leaseMs: 10_000 })
@Injectable()
export class Feed implements LeaderHooks {
  readonly read: number[] = [];

  async onElected({ signal, fencingToken }: LeaderTerm): Promise<void> {
    while (!signal.aborted) {
      this.read.push(fencingToken);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  isReading(): boolean {
    return leadershipOf(this).isLeader();
  }
}
