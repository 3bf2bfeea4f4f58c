import 'reflect-metadata';
import {
  type HttpServer,
  type INestApplication,
  type ModuleMetadata,
  type NestApplicationOptions,
} from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { Test } from '@nestjs/testing';
import { currentLock, RedisLockModule, type RedisLockModuleOptions, RedisLockService } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeLater, freshKey } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { gate } from '../../support/waiting/gate.js';

/** The work of the locked methods of all instances of a test: they note that they run, and last until the test ends them. */
export class Work {
  readonly #running = new Map<string, number>();
  readonly #started = new Map<string, number>();
  readonly #overlapped = new Set<string>();
  readonly #done = gate();

  /** Returns the key of the lock under which it ran. */
  async run(id: string): Promise<string> {
    const { key } = currentLock();
    const others = this.#running.get(id) ?? 0;
    if (others > 0) this.#overlapped.add(id);
    this.#running.set(id, others + 1);
    this.#started.set(id, this.started(id) + 1);
    await this.#done.opened;
    this.#running.set(id, this.#running.get(id)! - 1);
    return key;
  }

  /** How often a method has begun for this id. */
  started(id: string): number {
    return this.#started.get(id) ?? 0;
  }

  /** Waits until this many calls have started. */
  async untilStarted(id: string, count = 1): Promise<void> {
    await eventually(() => this.started(id) >= count, { message: `Fewer than ${count} of ${id} have started` });
  }

  isRunning(id: string): boolean {
    return (this.#running.get(id) ?? 0) > 0;
  }

  overlapped(id: string): boolean {
    return this.#overlapped.has(id);
  }

  /** Ends all running methods, and all later ones. */
  finish(): void {
    this.#done.open();
  }
}

/** One instance of an app, with the keys that it acquired. */
export interface Instance {
  readonly app: INestApplication;
  readonly locks: RedisLockService;
  readonly work: Work;
  readonly acquired: readonly string[];
  close(): Promise<void>;
}

interface BuildOptions extends NestApplicationOptions {
  readonly adapter?: HttpServer;
  readonly locks?: RedisLockModuleOptions;
}

/** An instance that does not listen yet, and that its caller closes. Without an adapter, Nest would drop the options. */
export async function buildInstance(
  metadata: ModuleMetadata,
  work: Work,
  { adapter = new ExpressAdapter(), locks: lockOptions = {}, ...more }: BuildOptions = {},
): Promise<Omit<Instance, 'close'>> {
  const lockModule = RedisLockModule.forRoot({ connection: redisUrl(), drainMs: 100, ...lockOptions });
  const imports = [lockModule, ...(metadata.imports ?? [])];
  const providers = [{ provide: Work, useValue: work }, ...(metadata.providers ?? [])];
  const compiled = await Test.createTestingModule({ ...metadata, imports, providers }).compile();
  const app = compiled.createNestApplication(adapter, { logger: false, ...more });
  const locks = app.get(RedisLockService);
  const acquired: string[] = [];
  locks.events.on('acquired', ({ key }) => acquired.push(key));
  return { app, locks, work, acquired };
}

/**
 * Starts an instance that listens on its own port, and that `closeAll` closes. Instances of one test share `work`,
 * which ends when they close, so that a test that failed does not wait for its calls. `prepare` sets what the app needs
 * before it is initialised, such as an adapter.
 */
export async function startInstance(
  metadata: ModuleMetadata,
  work: Work,
  prepare: (app: INestApplication) => void = () => undefined,
): Promise<Instance> {
  const built = await buildInstance(metadata, work);
  const { app } = built;
  const close = async (): Promise<void> => {
    work.finish();
    await app.close();
  };
  const instance = closeLater({ ...built, close });
  prepare(app);
  await app.listen(0, '127.0.0.1');
  return instance;
}

/** Two instances of one app, which share what they note. */
export async function startTwo<T>(start: (work: Work) => Promise<T>, work = new Work()): Promise<readonly [T, T]> {
  return [await start(work), await start(work)];
}

/**
 * Calls one key on both instances: the second waits until the first has ended, while a call of another key runs
 * at the same time. The work gets the id as the method received it.
 */
export async function expectOneAtATime<T extends Instance>(
  [a, b]: readonly [T, T],
  call: (instance: T, id: string) => Promise<unknown>,
  received: (id: string) => string = (id) => id,
): Promise<void> {
  const [id, other] = [freshKey(), freshKey()];
  const { work } = a;
  const calls = [call(a, id)];
  try {
    await eventually(() => work.isRunning(received(id)), { message: 'The first call did not run' });
    calls.push(call(b, id), call(b, other));
    await eventually(() => work.isRunning(received(other)), { message: 'Another key did not run at the same time' });
    await untilWaiting(a, `order:${received(id)}`);
    await work.untilStarted(received(id));
    expect(work.started(received(id))).toBe(1);
  } finally {
    work.finish();
    await Promise.allSettled(calls);
  }
  await Promise.all(calls);
  await eventually(() => work.started(received(id)) === 2 && !work.isRunning(received(id)));
  expect(work.overlapped(received(id))).toBe(false);
}
