import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

// An instance does not outlive its runner. SIGTERM lets it release its locks first.
process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
// It may have ended while this file was loaded.
if (process.send && !process.connected) process.exit(1);

const app = await NestFactory.create(AppModule, { logger: ['warn', 'error', 'fatal'] });
// Without this, SIGTERM ends the process with its locks held, and others wait until the leases end.
app.enableShutdownHooks();
await app.listen(Number(process.env['PORT'] ?? 0), '127.0.0.1');
const url = await app.getUrl();
console.log(`Ready at ${url}`);
if (process.connected) process.send?.({ type: 'ready', url });
