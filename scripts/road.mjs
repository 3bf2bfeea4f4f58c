// Prints the road of a call from `@Locked` to EVALSHA, for docs/how-it-works.md: the functions of the built package on the stack, across
// turns of the event loop, and the objects that are made on the way, by V8's coverage of constructors. Needs a build.
import { createHook, executionAsyncId } from 'node:async_hooks';
import { readFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import 'reflect-metadata';
import { startRedisServer } from './redis.mjs';
const { Locked, RedisLockModule } = await import('../dist/esm/index.js');
const BUILD = new URL('../dist/esm/', import.meta.url).href;
const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });

/** The classes of the package that were constructed since the last call. */
function objectsSince() {
  let scripts;
  session.post('Profiler.takePreciseCoverage', (_error, { result }) => (scripts = result));
  const functions = scripts.filter(({ url }) => url.startsWith(BUILD)).flatMap((script) => script.functions);
  const called = functions.filter(
    ({ functionName: name, ranges: [{ count }] }) => count > 0 && /^[A-Z]\w*$/.test(name),
  );
  const made = new Map(called.map(({ functionName, ranges: [{ count }] }) => [functionName, count]));
  // The constructor of a base class runs for an object of the class that extends it.
  for (const url of new Set(scripts.map((script) => script.url).filter((one) => one.startsWith(BUILD)))) {
    for (const [, name, base] of readFileSync(new URL(url), 'utf8').matchAll(/class (\w+) extends (\w+)/g)) {
      if (made.has(name) && made.has(base)) made.set(base, made.get(base) - made.get(name));
    }
  }
  return [...made.keys()].filter((name) => made.get(name) > 0);
}

/** Where each asynchronous step began. */
const begun = new Map();
Error.stackTraceLimit = Infinity;
createHook({ init: (id) => begun.set(id, { stack: new Error().stack, from: executionAsyncId() }) }).enable();

/** The functions of the package on the stack, and on those of the steps that led here, the caller first. */
function onTheStack() {
  let { stack } = new Error();
  for (let step = begun.get(executionAsyncId()); step; step = begun.get(step.from)) stack += `\n${step.stack}`;
  const ours = stack.split('\n').filter((line) => line.includes(BUILD));
  const frames = ours.map((line) => /at (?:async |new )?(?:(.+) \()?file:.*\/dist\/esm\/([^:]+):(\d+)/.exec(line));
  return [...new Set(frames.map(([, name, file, line]) => `${file} ${name ?? `line ${line}`}`))].toReversed();
}

class App {}
class Orders {}
const charge = Reflect.decorate([Locked('order:<0>')], Orders.prototype, 'charge', { value: async () => {} });
Object.defineProperty(Orders.prototype, 'charge', charge);
const server = await startRedisServer();
Module({ imports: [RedisLockModule.forRoot({ connection: server.url })], providers: [Orders] })(App);
const app = await NestFactory.createApplicationContext(App, { logger: false });
// The first call also asks the server for its time, and loads the script.
await app.get(Orders).charge('1');
const send = Reflect.get(Redis.prototype, 'sendCommand');
Redis.prototype.sendCommand = function (command, ...rest) {
  if (command.name !== 'evalsha') throw new Error(`Expected EVALSHA, and not ${command.name}: run this again.`);
  const functions = onTheStack();
  const objects = objectsSince();
  const files = new Set(functions.map((one) => one.split(' ')[0]));
  console.log([...functions, '', ...objects, ''].join('\n'));
  console.log(`${functions.length} functions in ${files.size} files, ${objects.length} objects`);
  Redis.prototype.sendCommand = send;
  return send.call(this, command, ...rest);
};
begun.clear();
objectsSince();
await app.get(Orders).charge('2');
await app.close();
await server.stop();
