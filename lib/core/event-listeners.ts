import { type LockEventMap, type LockEventName, type LockEvents } from './lock.events.js';

/** Listeners that are removed together. An event can have several; if one throws, the others still run. */
export class EventListeners {
  readonly #stops: (() => void)[] = [];

  constructor(private readonly events: LockEvents) {}

  on<Name extends LockEventName>(name: Name, listener: (event: LockEventMap[Name]) => void): this {
    this.events.on(name, listener);
    this.#stops.push(() => this.events.off(name, listener));
    return this;
  }

  stop(): void {
    for (const stop of this.#stops.splice(0)) stop();
  }
}
