import { Injectable } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { Locked } from '../../../lib/index.js';

@Injectable()
export class Reports {
  readonly written: string[] = [];

  /** Every instance fires at noon; one of them runs it. */
  @Cron('0 12 * * *', { name: 'noon-report' })
  @Locked('noon-report', { oncePer: 'fire' })
  async noon(): Promise<void> {
    this.written.push('noon');
  }
}
