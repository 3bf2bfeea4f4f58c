// One instance of an app with a scheduled job, as a separate process, on the built package; reports what happens to its parent
// (job-app.ts).
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

const { module, key, schedule, locked, skewMs, workMs } = JSON.parse(process.argv[2]);

// Before anything is imported that could keep the right clock.
const RealDate = Date;
globalThis.Date = class extends RealDate {
  constructor(...args) {
    super(...(args.length > 0 ? args : [RealDate.now() + skewMs]));
  }

  static now() {
    return RealDate.now() + skewMs;
  }
};
await import('reflect-metadata');
const { Inject, Logger, Module } = await import('@nestjs/common');
const { NestFactory } = await import('@nestjs/core');
const { Cron, Interval, ScheduleModule, Timeout } = await import('@nestjs/schedule');
const { currentLock, Locked, RedisLockModule, RedisLockService } = await import('../../../dist/esm/index.js');

const tell = (kind, what = {}) => process.connected && process.send({ kind, ...what });

const logger = { debug: () => undefined, verbose: () => undefined };
for (const level of ['log', 'warn', 'error', 'fatal']) {
  logger[level] = (message, ...rest) => tell('log', { level, context: String(rest.at(-1)), text: String(message) });
}
Logger.overrideLogger(logger);

class Jobs {
  constructor(locks) {
    this.locks = locks;
    locks.events.on('skipped', ({ reason }) => tell('skipped', { at: Date.now(), reason }));
  }

  /** Until it is connected: a schedule begins later. */
  async onModuleInit() {
    await this.locks.isLocked(key);
  }

  async run() {
    const { fencingToken } = currentLock();
    const { fire } = await this.locks.lastRun(key);
    tell('run', { fire: fire.getTime(), fencingToken });
    await sleep(workMs);
  }
}

const schedules = {
  cron: ({ cron, timeZone }) => Cron(cron, { timeZone }),
  interval: ({ intervalMs }) => Interval(intervalMs),
  timeout: ({ timeoutMs }) => Timeout(timeoutMs),
};
Inject(RedisLockService)(Jobs, undefined, 0);
const descriptor = Object.getOwnPropertyDescriptor(Jobs.prototype, 'run');
Locked(key, locked)(Jobs.prototype, 'run', descriptor);
schedules[schedule.kind](schedule)(Jobs.prototype, 'run', descriptor);
Object.defineProperty(Jobs.prototype, 'run', descriptor);

class AppModule {}
Module({ imports: [RedisLockModule.forRoot(module), ScheduleModule.forRoot()], providers: [Jobs] })(AppModule);

const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
app.enableShutdownHooks();
// Listening keeps the process alive until the parent ends it, or has ended itself.
process.on('message', () => undefined);
process.on('disconnect', () => process.exit());
tell('ready');
