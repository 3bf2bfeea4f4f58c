// Takes a key from its holder, as an operator does.
import process from 'node:process';
import { open } from './clients/nestjs-redis-lock.mjs';

const client = await open(JSON.parse(process.argv[2]));
await client.forceRelease(process.argv[3]);
await client.close();
