import { type SimRedis } from '../client/sim-redis.js';
import { FIRST_SENTINEL } from '../server/sentinel.js';
import { type Application } from '../workload/application.js';
import { type Facts } from './facts.js';

const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

/** A release may take a second; the last ones have a quarter of a second of their own (lib/core/timing.ts). */
const RELEASES_MS = 1_020;

/** How long `close()` waits for the sockets (lib/redis/timing.ts), with a late timer. */
const SOCKETS_MS = 520;

/** Promise 10, for processes: a shutdown takes its time and no more, and nothing is left in a process. */
export class ProcessEnd {
  constructor(private readonly facts: Facts) {}

  onLockerClosed(app: Application, drainMs: number, from: { at: number; mono: number }): void {
    this.#checkTime(app, 'the shutdown', drainMs + RELEASES_MS, from);
    const { locks, waiting } = app.locker.live;
    if (locks + waiting > 0) this.#violate(app, `after the shutdown: ${JSON.stringify(app.locker.live)}`);
  }

  onStoreClosed(app: Application, from: { at: number; mono: number }): void {
    this.#checkTime(app, 'the end of the connections', SOCKETS_MS, from);
    const { given, givenListeners } = app;
    if (given && given.allListeners !== givenListeners)
      this.#violate(app, `the given client has ${given.allListeners} listeners, and had ${givenListeners}`);
  }

  /** Some seconds after the shutdown. */
  onQuiet(app: Application): void {
    this.#checkNothing(app);
    for (const call of this.facts.pending) {
      if (call.process === app.process) this.#violate(app, `${call.name} still waits after the shutdown`);
    }
  }

  /** At the end of the run. */
  onEnd(app: Application): void {
    this.#checkNothing(app);
    const { process } = app;
    const unanswered = [...this.facts.network.of(process).clients].filter(
      // A client of the application may stay connected to a server that is gone.
      (client) =>
        client.unanswered > 0 && client !== app.given && client.cluster !== (app.given ?? 0) && !isIdle(client),
    );
    if (unanswered.length > 0)
      this.#violate(app, `commands without an answer: ${unanswered.map((client) => client.text).join(', ')}`);
    if (process.timers > (this.facts.network.topology?.idleTimers ?? 0))
      this.#violate(app, `${process.timers} timers are set`);
  }

  #checkNothing(app: Application): void {
    const live: Readonly<Record<string, number>> = app.locker.live;
    if (Object.keys(NOTHING).some((name) => live[name] !== 0)) this.#violate(app, `left: ${JSON.stringify(live)}`);
    if (app.process.garbage.size > 0) this.#violate(app, `${app.process.garbage.size} handles are watched`);
  }

  #checkTime({ process }: Application, what: string, boundMs: number, from: { at: number; mono: number }): void {
    const tookMs = process.clock.now() - from.mono;
    if (tookMs <= boundMs || process.stops.some(({ to }) => to >= from.at)) return;
    const text = `${what} of ${process.name} took ${tookMs.toFixed(0)} of ${boundMs} ms`;
    this.facts.world.violate('a shutdown takes its time and no more', text);
  }

  #violate({ process }: Application, text: string): void {
    this.facts.world.violate('10: nothing is left in a process', `${process.name}: ${text}`);
  }
}

/** It pings a sentinel, or asks for the slots of a cluster. */
const isIdle = ({ options, commandQueue }: SimRedis): boolean =>
  options.port >= FIRST_SENTINEL || commandQueue.every(({ name }) => name === 'cluster');
