import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type FireReport } from '../lottery/report.js';

/** One instance of the app, as a process. */
export interface Instance {
  readonly name: string;
  readonly url: string;
  readonly ended: Promise<NodeJS.Signals | null>;
  /** Asks it to end, and makes it end when it does not. */
  stop(): Promise<void>;
}

type Message = { kind: 'ready'; url: string } | ({ kind: 'fire' } & FireReport);

/** An instance that does not end by itself within this time is killed. */
const STOP_MS = 15_000;

/** Starts an instance for each name; resolves when all of them listen. */
export function startInstances(
  names: readonly string[],
  databasePath: string,
  onFire: (report: FireReport) => void,
): Promise<Instance[]> {
  return Promise.all(names.map((name) => startInstance(name, databasePath, onFire)));
}

function startInstance(name: string, databasePath: string, onFire: (report: FireReport) => void): Promise<Instance> {
  const main = fileURLToPath(new URL('../main.js', import.meta.url));
  const child = fork(main, { env: { ...process.env, INSTANCE: name, DATABASE_PATH: databasePath, PORT: '0' } });
  const ended = new Promise<NodeJS.Signals | null>((resolve) => child.once('exit', (_code, signal) => resolve(signal)));
  return new Promise((resolve, reject) => {
    void ended.then(() => reject(new Error(`The instance ${name} ended before it was ready.`)));
    child.on('message', (message: Message) => {
      if (message.kind === 'fire') onFire(message);
      else resolve({ name, url: message.url, ended, stop: () => stop(child, ended) });
    });
  });
}

async function stop(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  const limit = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await ended;
  clearTimeout(limit);
}
