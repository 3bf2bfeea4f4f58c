import { type SimProcess } from './sim-process.js';

/** `timer` and `io` run code of a process, and wait while it is stopped. The others happen whatever processes do. */
export type EventKind = 'timer' | 'io' | 'network' | 'server' | 'fault' | 'plan';

/** Something that happens at a moment of the world's time. */
export interface SimEvent {
  readonly time: number;
  /** Of two events at one moment, the one that was planned first happens first. */
  readonly order: number;
  readonly owner: SimProcess | null;
  readonly kind: EventKind;
  readonly happen: () => void;
  isCancelled: boolean;
}

const isBefore = (a: SimEvent, b: SimEvent): boolean => a.time < b.time || (a.time === b.time && a.order < b.order);

/** The events to come, as a binary heap. */
export class EventHeap {
  readonly #events: SimEvent[] = [];

  get first(): SimEvent | undefined {
    return this.#events[0];
  }

  push(event: SimEvent): void {
    const events = this.#events;
    let i = events.push(event) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (isBefore(events[parent]!, event)) break;
      events[i] = events[parent]!;
      i = parent;
    }
    events[i] = event;
  }

  pop(): SimEvent | undefined {
    const events = this.#events;
    const [top] = events;
    const last = events.pop();
    if (!last || events.length === 0) return top;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && isBefore(events[child + 1]!, events[child]!)) child += 1;
      if (!isBefore(events[child]!, last)) break;
      events[i] = events[child]!;
      i = child;
    }
    events[i] = last;
    return top;
  }
}
