import { type INestApplication, type ModuleMetadata } from '@nestjs/common';
import { currentLock, type RedisLockModuleOptions, type RedisLockService } from '../../../lib/index.js';
import { closeAll } from '../../support/apps/lock-app.js';
import { startPlain } from './requests.js';
import { gate } from '../../support/waiting/gate.js';

/** An app that answers over HTTP, by express. */
export interface HttpApp {
  readonly app: INestApplication;
  readonly locks: RedisLockService;
  /** The status and the text of an answer, as one text. */
  readonly get: (path: string, headers?: Record<string, string>) => Promise<string>;
  close(): Promise<void>;
}

/** Starts an app that listens on a port of the system's choice; `closePlaces` closes it. */
export async function startHttp(metadata: ModuleMetadata, options: RedisLockModuleOptions = {}): Promise<HttpApp> {
  const http = await startPlain(metadata, options);
  const get = async (path: string, headers: Record<string, string> = {}): Promise<string> => {
    const { status, text } = await http.get(path, { headers });
    return `${status} ${text}`;
  };
  return { ...http, get };
}

const gates: { open(): void }[] = [];

/** A gate that `closePlaces` opens, so that no work outlives a test that failed. */
export function gateOfTest(): ReturnType<typeof gate> {
  const made = gate();
  gates.push(made);
  return made;
}

/** Ends all work that waits at a gate, and closes what the test opened. */
export async function closePlaces(): Promise<void> {
  for (const one of gates.splice(0)) one.open();
  await closeAll();
}

/** Counts how many pieces of work run side by side. */
export class SideBySide {
  running = 0;
  most = 0;
  total = 0;

  async run<T>(work: () => Promise<T>): Promise<T> {
    this.total += 1;
    this.running += 1;
    this.most = Math.max(this.most, this.running);
    try {
      return await work();
    } finally {
      this.running -= 1;
    }
  }
}

/** What a method answers to show under which lock it ran. */
export const underLock = (what: string): string => `${what} under ${currentLock().key}`;
