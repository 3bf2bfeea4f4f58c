// Locked routes on two instances of an app, over real requests.
import { strict as assert } from 'node:assert';
import { Controller, Get, type INestApplication, Module, Param, Post } from '@nestjs/common';
import { type AbstractHttpAdapter, NestFactory } from '@nestjs/core';
import { Locked, RedisLockModule, RedisLockService } from 'nestjs-redis-lock';

/** What the next calls of the routes do. */
const works: (() => Promise<void>)[] = [];

@Controller('stock')
class StockController {
  @Get(':sku')
  @Locked('stock:<0>')
  async below(@Param('sku') sku: string): Promise<string> {
    await works.shift()?.();
    return `below ${sku}`;
  }

  @Locked('stock:<0>')
  @Post(':sku')
  async above(@Param('sku') sku: string): Promise<string> {
    await works.shift()?.();
    return `above ${sku}`;
  }
}

@Module({
  imports: [RedisLockModule.forRootAsync({ useFactory: () => ({ connection: process.env['REDIS_URL'] }) })],
  controllers: [StockController],
})
class StockModule {}

interface OpenWork {
  readonly work: () => Promise<void>;
  readonly began: Promise<void>;
  readonly end: () => void;
  readonly hasBegun: () => boolean;
}

/** What it needs of the other files, whose names differ between module formats. */
export interface Tools {
  readonly openWork: () => OpenWork;
  readonly eventually: (isSo: () => Promise<boolean>) => Promise<void>;
}

/** Two requests for one key, to two instances: the second runs when the first has ended. */
export async function checkRoutes(createAdapter: () => AbstractHttpAdapter, tools: Tools): Promise<void> {
  const apps: INestApplication[] = [];
  const open = async (): Promise<INestApplication> => {
    const app = await NestFactory.create(StockModule, createAdapter(), { logger: false, abortOnError: false });
    apps.push(app);
    await app.listen(0, '127.0.0.1');
    return app;
  };
  try {
    const [a, b] = [await open(), await open()];
    await excludeEachOther([a, b], 'GET', 'below', tools);
    await excludeEachOther([a, b], 'POST', 'above', tools);
  } finally {
    for (const app of apps) await app.close();
  }
}

async function excludeEachOther(
  [a, b]: [INestApplication, INestApplication],
  method: string,
  answer: string,
  { openWork, eventually }: Tools,
): Promise<void> {
  const locks = a.get(RedisLockService);
  const [first, second] = [openWork(), openWork()];
  works.push(first.work, second.work);
  const sku = `${answer}-${process.pid}-${Date.now()}`;
  const request = async (app: INestApplication): Promise<string> => {
    // A kept-alive connection would delay the close of the server.
    const headers = { connection: 'close' };
    return (await fetch(`${await app.getUrl()}/stock/${sku}`, { method, headers })).text();
  };
  const one = request(a);
  await first.began;
  const other = request(b);
  await eventually(async () => (await locks.inspect(`stock:${sku}`)).waiters === 1);
  assert.equal(second.hasBegun(), false);
  first.end();
  assert.equal(await one, `${answer} ${sku}`);
  second.end();
  assert.equal(await other, `${answer} ${sku}`);
}
