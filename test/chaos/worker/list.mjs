// Prints all locks that are held or waited for, as a JSON list.
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { open } from './clients/nestjs-redis-lock.mjs';

/** A sentinel may still name the former master. */
const PATIENCE_MS = 20_000;

async function listPatiently(client) {
  for (const until = performance.now() + PATIENCE_MS; ; await sleep(500)) {
    try {
      return await client.list();
    } catch (error) {
      if (!error.retryable || performance.now() > until) throw error;
    }
  }
}

const client = await open(JSON.parse(process.argv[2]));
console.log(JSON.stringify(await listPatiently(client)));
await client.close();
