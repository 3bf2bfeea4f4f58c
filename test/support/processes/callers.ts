import { type ChildProcess } from 'node:child_process';
import { topology } from '../topologies/topology.js';
import { eventually } from '../waiting/eventually.js';
import { buildPackage, forkScript } from './child-app.js';

/** How long each call of these processes waits. */
export const PATIENT = { waitMs: 25_000 };

export interface Grant {
  readonly token: number;
  readonly caller: number;
  readonly local: boolean;
  /** On the monotonic clock of its process. */
  readonly at: number;
}

interface Message {
  readonly hangs?: number;
  readonly stops?: number;
  readonly grants?: readonly Grant[];
  readonly failures?: readonly string[];
}

/** A process with several callers of one lock (turns-process.mjs). */
export async function startCallers(key: string, terms: object): Promise<{ child: ChildProcess; said: Message }> {
  await buildPackage();
  const options = { connection: topology.connection };
  const { child } = forkScript('turns-process.mjs', JSON.stringify({ options, key, lock: PATIENT, ...terms }));
  const said: Message & { isReady?: boolean } = {};
  child.on('message', (message) => void Object.assign(said, message));
  await eventually(() => said.isReady, { timeoutMs: 20_000 });
  return { child, said };
}
