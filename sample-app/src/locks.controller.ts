import { Controller, Get } from '@nestjs/common';
import { type LockState, RedisLockService } from 'nestjs-redis-lock';

/** Lists the held locks, their holders, and how many callers wait. Read-only. */
@Controller('locks')
export class LocksController {
  constructor(private readonly locks: RedisLockService) {}

  @Get()
  async list(): Promise<LockState[]> {
    const states: LockState[] = [];
    for await (const state of this.locks.list({ limit: 100 })) states.push(state);
    return states;
  }
}
