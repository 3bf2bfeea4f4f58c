import { createReadStream, openSync, readdirSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type ChaosEvent, type NemesisEvent } from '../checker/events.js';
import { History } from '../checker/history.js';
import { now } from './worker/standstills.mjs';

type WithoutStamp<E> = E extends unknown ? Omit<E, 't' | 'p'> : never;

/** Writes down what the nemesis does, in the folder in which the workers write their own files. */
export class Recorder {
  readonly #file: number;

  constructor(readonly folder: string) {
    this.#file = openSync(join(folder, 'nemesis.jsonl'), 'a');
  }

  note(event: WithoutStamp<NemesisEvent>): void {
    writeSync(this.#file, `${JSON.stringify({ t: now(), p: 'nemesis', ...event })}\n`);
  }

  fileOf(worker: string): string {
    return join(this.folder, `${worker}.jsonl`);
  }
}

/** Reads what all processes of a run have written. A kill may leave the last line of a process incomplete. */
export async function readHistory(folder: string): Promise<History> {
  const history = new History();
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.jsonl'))) {
    for await (const line of createInterface({ input: createReadStream(join(folder, file)) })) {
      const event = parse(line);
      if (event) history.add(event);
    }
  }
  return history;
}

function parse(line: string): ChaosEvent | undefined {
  try {
    return JSON.parse(line) as ChaosEvent;
  } catch {
    return undefined;
  }
}
