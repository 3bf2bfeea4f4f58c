import { type ChildProcess, fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { type Sql, openDatabase } from '../../src/database/open-database.js';
import type { FireReport } from '../../src/lottery/fire-report.js';
import { cleanUp, kill, later, sampleApp, temporaryFolder } from './processes.js';

export { cleanUp };

/** An instance of the built app in a separate process. */
export interface Instance {
  readonly name: string;
  readonly url: string;
  readonly process: ChildProcess;
  /** What it reported about the fires of its lottery, in order. */
  readonly reports: FireReport[];
  /** Sends SIGKILL: the instance releases nothing. */
  kill(): Promise<void>;
}

/** The instances of one test, with the database that they share. */
export interface Deployment {
  readonly sql: Sql;
  readonly instances: readonly Instance[];
}

/** Starts instances with a separate database and lock prefix. */
export async function deploy(names: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Deployment> {
  const file = join(temporaryFolder(), 'sample.db');
  const sql = openDatabase(file);
  later(() => sql.close());
  const shared = { DATABASE_FILE: file, LOCK_PREFIX: `sample-app-test-${randomUUID()}:`, PORT: '0', ...env };
  return { sql, instances: await Promise.all(names.map((name) => startInstance(name, shared))) };
}

async function startInstance(name: string, env: NodeJS.ProcessEnv): Promise<Instance> {
  const child = fork(join(sampleApp, 'dist', 'main.js'), [], {
    env: { ...process.env, ...env, INSTANCE: name },
    // Not the flags of Jest: the app runs as it does for a user.
    execArgv: [],
    silent: true,
  });
  later(() => kill(child));
  let output = '';
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (data) => (output += String(data)));
  const reports: FireReport[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    child.on('message', (message: FireReport | { type: 'ready'; url: string }) => {
      if (message.type === 'ready') resolve(message.url);
      else reports.push(message);
    });
    child.once('exit', () => reject(new Error(`The instance ${name} ended before it was ready.\n${output}`)));
  });
  return { name, url, process: child, reports, kill: () => kill(child) };
}
