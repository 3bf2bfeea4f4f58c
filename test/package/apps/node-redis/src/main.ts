import 'reflect-metadata';
import { strict as assert } from 'node:assert';
import { createClient } from 'redis';
import { checkHandOver, isInstalled, redisUrl } from './hand-over.js';
import { runGroups } from './report.js';

async function checkClient(RESP: 2 | 3): Promise<void> {
  const client = createClient({ url: redisUrl, RESP });
  client.on('error', console.error);
  await client.connect();
  try {
    await checkHandOver([client, redisUrl]);
    assert.equal(await client.ping(), 'PONG');
  } finally {
    client.destroy();
  }
}

async function locks(): Promise<string[]> {
  assert.deepEqual(['ioredis', 'iovalkey'].filter(isInstalled), []);
  const { hostname, port } = new URL(redisUrl);
  await checkHandOver([redisUrl, { host: hostname, port: Number(port) }]);
  await checkClient(2);
  await checkClient(3);
  return ['a URL and options without ioredis', 'a client that speaks RESP2', 'a client that speaks RESP3'];
}

runGroups({ locks });
