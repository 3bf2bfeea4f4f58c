import { Controller, Get } from '@nestjs/common';
import { type LockState, RedisLockService } from 'nestjs-redis-lock';

/** Tells people which locks are held, by whom, and how many wait; changes nothing. */
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
