import { Controller, Get } from '@nestjs/common';
import { leadershipOf, RedisLockService } from 'nestjs-redis-lock';
import { INSTANCE } from '../instance.js';
import { REPORTS, ReportsLeader } from './reports.leader.js';

/** Who leads: this instance's own state, and the state of all in Redis. */
export interface LeaderStatus {
  readonly instance: string;
  readonly leads: boolean;
  readonly leader: { readonly pid: number; readonly since: Date } | null;
}

@Controller('reports')
export class ReportsController {
  constructor(
    private readonly reports: ReportsLeader,
    private readonly locks: RedisLockService,
  ) {}

  @Get('leader')
  async leader(): Promise<LeaderStatus> {
    const [holder] = (await this.locks.inspect(REPORTS)).holders;
    const leader = holder ? { pid: holder.pid, since: holder.since } : null;
    return { instance: INSTANCE, leads: leadershipOf(this.reports).isLeader(), leader };
  }
}
