import 'reflect-metadata';
import { strict as assert } from 'node:assert';
import { Redis, Valkey } from 'iovalkey';
import { checkHandOver, isInstalled, redisUrl } from './hand-over.js';
import { runGroups } from './report.js';

async function locks(): Promise<string[]> {
  assert.deepEqual(['ioredis', 'redis'].filter(isInstalled), []);
  const { hostname, port } = new URL(redisUrl);
  await checkHandOver([redisUrl, { host: hostname, port: Number(port) }]);
  const clients = [new Valkey(redisUrl), new Redis(redisUrl)] as const;
  try {
    await checkHandOver([clients[0], redisUrl]);
    await checkHandOver([clients[1], { host: hostname, port: Number(port) }]);
    assert.equal(await clients[0].ping(), 'PONG');
  } finally {
    for (const client of clients) client.disconnect();
  }
  return ['a URL and options without ioredis', 'clients of iovalkey'];
}

runGroups({ locks });
