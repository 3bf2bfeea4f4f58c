import { Injectable } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { currentLock, Leader } from 'nestjs-redis-lock';
import { wholeNumber } from '../whole-number.js';
import { ReportsRepository } from './reports.repository.js';

/** What the instances campaign for. */
export const REPORTS = 'reports';

/** Counts the draws again and again, on the instance that leads. */
@Leader(REPORTS, { leaseMs: wholeNumber('REPORTS_LEASE_MS', 10_000) })
@Injectable()
export class ReportsLeader {
  constructor(private readonly reports: ReportsRepository) {}

  @Interval(wholeNumber('REPORTS_PERIOD_MS', 1_000))
  async write(): Promise<void> {
    this.reports.add(currentLock().fencingToken);
  }
}
