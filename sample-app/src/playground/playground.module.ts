import { type DynamicModule, Module } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-redis-lock';
import { RedisLockBoardModule } from 'nestjs-redis-lock/board';
import { LocalGuard } from '../local.guard.js';
import { InstanceGroup } from '../runner/instance-group.js';
import { PlaygroundController } from './playground.controller.js';
import { PlaygroundService, REDIS_WIRE } from './playground.service.js';
import { type RedisWire } from './redis-wire.js';
import { TimeLine } from './time-line.js';

/** What the runner has made. */
export interface PlaygroundParts {
  readonly group: InstanceGroup;
  readonly timeLine: TimeLine;
  readonly wire: RedisWire | null;
  readonly redisUrl: string;
  readonly keyPrefix: string;
}

/** An app next to the instances: it watches the same locks, and survives what is done to them. */
@Module({})
export class PlaygroundModule {
  static forRoot({ group, timeLine, wire, redisUrl, keyPrefix }: PlaygroundParts): DynamicModule {
    return {
      module: PlaygroundModule,
      imports: [
        RedisLockModule.forRoot({ connection: redisUrl, keyPrefix, history: true }),
        RedisLockBoardModule.forRoot({
          path: 'locks',
          guard: LocalGuard,
          refreshMs: 500,
          actions: { forceRelease: true, user: () => 'a reader of the playground' },
        }),
      ],
      controllers: [PlaygroundController],
      providers: [
        PlaygroundService,
        { provide: InstanceGroup, useValue: group },
        { provide: TimeLine, useValue: timeLine },
        { provide: REDIS_WIRE, useValue: wire },
      ],
    };
  }
}
