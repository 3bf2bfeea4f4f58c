import 'reflect-metadata';
import { hostname } from 'node:os';
import { Locked } from '../../../lib/index.js';
import { startApp } from '../../support/apps/lock-app.js';

/** So long that no test sees the end of one. */
export const SLOT_MS = 30 * 24 * 3_600_000;
/** Of slots that do end. */
export const WIDTH_MS = 500;

type Task = () => Promise<unknown>;

export class Jobs {
  @Locked('job:<0>', { oncePer: SLOT_MS, leaseMs: 2_000 })
  async run(_id: string, task: Task): Promise<unknown> {
    return task();
  }

  @Locked('job:<0>', { oncePer: 20, spreadMs: 0 })
  async often(_id: string, task: Task): Promise<unknown> {
    return task();
  }

  @Locked('job:<0>', { oncePer: WIDTH_MS, spreadMs: 4 * WIDTH_MS })
  async late(_id: string, task: Task): Promise<unknown> {
    return task();
  }
}

/** The same job, as an instance has it whose app says that lost runs are run again. */
const Rerunning = (() => {
  class Jobs {
    @Locked('job:<0>', { oncePer: SLOT_MS, leaseMs: 1_500, rerunOnLoss: true, waitMs: 25_000 })
    async run(_id: string, task: Task): Promise<unknown> {
      return task();
    }
  }
  return Jobs;
})();

/** An instance in this process; `skipped` are the reasons why it did not run. */
export async function start() {
  const { app, locks } = await startApp({ drainMs: 20_000 }, { providers: [Jobs, Rerunning] });
  const skipped: string[] = [];
  locks.events.on('skipped', ({ reason }) => skipped.push(reason));
  return {
    jobs: app.get(Jobs),
    rerunning: app.get(Rerunning),
    lastRun: (id: string) => locks.lastRun(`job:${id}`),
    skipped,
    locks,
    close: () => app.close(),
  };
}

export const run = async (): Promise<string> => 'ran';
export const HERE = `${hostname().slice(0, 40)}:${process.pid}`;
