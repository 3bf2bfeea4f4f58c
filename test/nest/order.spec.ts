import 'reflect-metadata';
import { Controller, Get, type INestApplication, Param, ParseIntPipe, SetMetadata, UseGuards } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { Cron, Interval, ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { currentLock, Locked, RedisLockModule } from '../../lib/index.js';
import { eventually } from '../support/waiting/eventually.js';
import { closeAll } from '../support/apps/lock-app.js';
import { redisUrl } from '../support/topologies/topology.js';

class Deny {
  canActivate(): boolean {
    return false;
  }
}

@Controller()
class Routes {
  @Get('above/:id')
  @Locked('route:<0>')
  async above(@Param('id', ParseIntPipe) id: number): Promise<string> {
    return `${typeof id} ${currentLock().key}`;
  }

  @Locked('route:<0>')
  @Get('below/:id')
  async below(@Param('id', ParseIntPipe) id: number): Promise<string> {
    return `${typeof id} ${currentLock().key}`;
  }

  @Get('denied/1')
  @UseGuards(Deny)
  @Locked('denied')
  async denied1(): Promise<void> {}

  @Get('denied/2')
  @Locked('denied')
  @UseGuards(Deny)
  async denied2(): Promise<void> {}

  @Locked('denied')
  @UseGuards(Deny)
  @Get('denied/3')
  async denied3(): Promise<void> {}
}

class Jobs {
  readonly ran = new Map<string, string>();

  @Cron('* * * * * *')
  @Locked('job:cron-above')
  async cronAbove(): Promise<void> {
    this.#note('cronAbove');
  }

  @Locked('job:cron-below')
  @Cron('* * * * * *')
  async cronBelow(): Promise<void> {
    this.#note('cronBelow');
  }

  @Interval(20)
  @Locked('job:interval-above')
  async intervalAbove(): Promise<void> {
    this.#note('intervalAbove');
  }

  @Locked('job:interval-below')
  @Interval(20)
  async intervalBelow(): Promise<void> {
    this.#note('intervalBelow');
  }

  #note(name: string): void {
    this.ran.set(name, currentLock().key);
  }
}

class Tagged {
  @SetMetadata('tag', 'above')
  @Locked('tagged')
  async above(): Promise<void> {}

  @Locked('tagged')
  @SetMetadata('tag', 'below')
  async below(): Promise<void> {}
}

let app: INestApplication;
let url: string;

beforeAll(async () => {
  const lockModule = RedisLockModule.forRoot({ connection: redisUrl(), drainMs: 500, keyPrefix: 'order:' });
  const imports = [lockModule, ScheduleModule.forRoot()];
  const compiled = await Test.createTestingModule({ imports, controllers: [Routes], providers: [Jobs] }).compile();
  app = compiled.createNestApplication();
  await app.listen(0, '127.0.0.1');
  url = await app.getUrl();
});

afterAll(async () => {
  await app.close();
  await closeAll();
});

describe('a route', () => {
  it.each(['above', 'below'])('with @Get %s @Locked is found and locked, and its pipes apply', async (where) => {
    const answer = await fetch(`${url}/${where}/17`);
    expect([answer.status, await answer.text()]).toEqual([200, 'number route:17']);
    expect((await fetch(`${url}/${where}/none`)).status).toBe(400);
  });

  it.each([1, 2, 3])('keeps its guard in order %d', async (order) => {
    expect((await fetch(`${url}/denied/${order}`)).status).toBe(403);
  });
});

describe('a scheduled job', () => {
  it.each([
    ['cronAbove', 'job:cron-above'],
    ['cronBelow', 'job:cron-below'],
    ['intervalAbove', 'job:interval-above'],
    ['intervalBelow', 'job:interval-below'],
  ])('%s is found and locked', async (name, key) => {
    expect(await eventually(() => app.get(Jobs).ran.get(name))).toBe(key);
  });
});

it.each(['above', 'below'] as const)('metadata set %s @Locked is read by the Reflector', (where) => {
  expect(new Reflector().get('tag', Tagged.prototype[where])).toBe(where);
});
