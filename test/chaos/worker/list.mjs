// Prints all locks that are held or waited for, as a JSON list.
import process from 'node:process';
import { open } from './clients/nestjs-redis-lock.mjs';

const client = await open(JSON.parse(process.argv[2]));
console.log(JSON.stringify(await client.list()));
await client.close();
