// One instance of an app with a leader, as a separate process, on the built package; reports what happens to its parent
// (leader-app.ts).
import 'reflect-metadata';
import process from 'node:process';
import { Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Interval, ScheduleModule } from '@nestjs/schedule';
import { assertLocked, currentLock, Leader, RedisLockModule } from '../../../dist/esm/index.js';

const { module, key, leaseMs, everyMs } = JSON.parse(process.argv[2]);
const tell = (kind, what = {}) => process.connected && process.send({ kind, ...what });
Logger.overrideLogger(false);

class Reports {
  onElected({ fencingToken }) {
    tell('elected', { fencingToken });
  }

  onDemoted({ fencingToken }, reason) {
    tell('demoted', { fencingToken, reason });
  }

  work() {
    assertLocked(key);
    tell('worked', { fencingToken: currentLock().fencingToken });
  }
}
Interval(everyMs)(Reports.prototype, 'work', Object.getOwnPropertyDescriptor(Reports.prototype, 'work'));
Leader(key, { leaseMs })(Reports);

class AppModule {}
Module({ imports: [RedisLockModule.forRoot(module), ScheduleModule.forRoot()], providers: [Reports] })(AppModule);

const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
app.enableShutdownHooks();
// Listening keeps the process alive until the parent ends it, or has ended itself.
process.on('message', () => undefined);
process.on('disconnect', () => process.exit());
tell('ready');
