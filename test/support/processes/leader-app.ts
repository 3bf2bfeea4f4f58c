import { type ChildProcess } from 'node:child_process';
import { buildPackage, forkScript } from './child-app.js';
import { eventually } from '../waiting/eventually.js';
import { topology } from '../topologies/topology.js';

/** What an instance told: that it was elected, has worked as the leader, or was demoted. */
interface LeaderReport {
  readonly kind: 'ready' | 'elected' | 'worked' | 'demoted';
  readonly fencingToken: number;
  readonly reason?: string;
}

/** An instance of an app with a leader in a child process. */
export interface LeaderApp {
  readonly process: ChildProcess;
  readonly reports: readonly LeaderReport[];
  /** Resolves with the next report of this kind from now on. */
  next(kind: LeaderReport['kind']): Promise<LeaderReport>;
}

/** Starts an instance that campaigns, and that works every `everyMs` milliseconds while it leads. */
export async function startLeader(options: { key: string; leaseMs: number; everyMs: number }): Promise<LeaderApp> {
  await buildPackage();
  const module = { connection: topology.connection, drainMs: 500 };
  const { child } = forkScript('leader-process.mjs', JSON.stringify({ module, ...options }));
  const reports: LeaderReport[] = [];
  child.on('message', (report: LeaderReport) => reports.push(report));
  await eventually(() => reports.some(({ kind }) => kind === 'ready'), { timeoutMs: 30_000 });
  return {
    process: child,
    reports,
    next: (kind) => {
      const from = reports.length;
      return eventually(() => reports.slice(from).find((report) => report.kind === kind), { timeoutMs: 30_000 });
    },
  };
}
