import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { Controller, Get, Header, Module, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { currentLock, Locked, RedisLockModule, RedisLockService } from 'nestjs-redis-lock';
import { RedisLockBoardModule } from 'nestjs-redis-lock/board';

const WORK_MS = Number(process.env['WORK_MS'] ?? 2_000);

const page = `<!doctype html><meta charset="utf-8"><title>Locks</title>
<style>body { font: 16px sans-serif; max-width: 40em; margin: 2em auto } button { font: inherit; margin: 0 .5em .5em 0 }</style>
<h1>Locks</h1>
<p>Each click starts a call that holds its lock for ${WORK_MS} ms. Click twice: calls of one order wait for each other.</p>
<button data-id="7">Charge order 7</button><button data-id="8">Charge order 8</button>
<a href="/locks" target="_blank">The board</a>
<ol></ol>
<script>
  const list = document.querySelector('ol');
  for (const button of document.querySelectorAll('button')) {
    button.onclick = () => fetch('/orders/' + button.dataset.id + '/charge', { method: 'POST' });
  }
  setInterval(async () => {
    const events = await (await fetch('/events')).json();
    list.replaceChildren(...events.map((text) => Object.assign(document.createElement('li'), { textContent: text })));
  }, 500);
</script>`;

@Controller()
class Playground {
  readonly events: string[] = [];

  constructor(locks: RedisLockService) {
    locks.events.on('waiting', ({ key, ahead }) =>
      this.events.push(`${key}: one more call waits, ${ahead} ahead of it`),
    );
    locks.events.on('lost', ({ key, reason }) => this.events.push(`${key}: lost (${reason})`));
  }

  @Get()
  @Header('Content-Type', 'text/html')
  page(): string {
    return page;
  }

  @Get('events')
  last(): string[] {
    return this.events.slice(-20);
  }

  @Post('orders/:id/charge')
  @Locked('order:<0>', { waitMs: 30_000 })
  async charge(@Param('id') id: string): Promise<{ id: string; fencingToken: number }> {
    const { fencingToken } = currentLock();
    this.events.push(`order:${id}: charge begins, token ${fencingToken}`);
    await sleep(WORK_MS);
    this.events.push(`order:${id}: charge ends`);
    return { id, fencingToken };
  }
}

@Module({
  imports: [
    // In the memory of this process. To use Redis, write its URL here.
    RedisLockModule.forRoot({ connection: 'memory', history: true }),
    // Every client of this app sees its locks: in a real app, pass a guard.
    RedisLockBoardModule.forRoot({ path: 'locks', unguarded: true }),
  ],
  controllers: [Playground],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['warn', 'error', 'fatal'] });
app.enableShutdownHooks();
await app.listen(Number(process.env['PORT'] ?? 3000));
console.log(`ready at ${await app.getUrl()}`);
