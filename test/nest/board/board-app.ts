import { buildPackage, forkScript } from '../../support/processes/child-app.js';
import { eventually } from '../../support/waiting/eventually.js';

/** What an instance told: the address of its board, or what became of a lock. */
interface BoardReport {
  readonly kind: 'ready' | 'acquired' | 'lost';
  readonly url?: string;
  readonly key?: string;
  readonly reason?: string;
}

/** An instance of an app with a board, in a process of its own. */
export interface BoardApp {
  readonly url: string;
  readonly pid: number;
  /** Asks for a lock, and keeps it. */
  acquire(key: string, note?: string): void;
  /** Resolves with what it told of a lock. */
  told(kind: BoardReport['kind'], key?: string): Promise<BoardReport>;
  /** Sends SIGKILL, so that its locks stay until their leases are over. */
  kill(): void;
}

/** Starts an instance; it is killed with the test. */
export async function startBoardApp(connection: string, leaseMs: number): Promise<BoardApp> {
  await buildPackage();
  const { child } = forkScript('board-process.mjs', JSON.stringify({ connection, leaseMs }));
  const reports: BoardReport[] = [];
  child.on('message', (report: BoardReport) => reports.push(report));
  const told: BoardApp['told'] = (kind, key) =>
    eventually(() => reports.find((report) => report.kind === kind && report.key === key), { timeoutMs: 120_000 });
  const { url } = await told('ready');
  return {
    url: url!,
    pid: child.pid!,
    acquire: (key, note) => child.send({ key, note }),
    told,
    kill: () => child.kill('SIGKILL'),
  };
}
