import { Injectable } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { currentLock, Locked } from '../../../lib/index.js';

@Injectable()
export class Lottery {
  readonly drawn: number[] = [];

  /** A random delay of up to `spreadMs` decides who draws, so the winner changes. The lease is shorter than the period. */
  @Cron('* * * * * *')
  @Locked('lottery', { oncePer: 'fire', spreadMs: 100, leaseMs: 900 })
  async draw(): Promise<void> {
    this.drawn.push(currentLock().fencingToken);
  }
}
