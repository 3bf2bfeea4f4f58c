import { setTimeout as sleep } from 'node:timers/promises';
import { Hold, codeOf, logStray } from './hold.mjs';
import { nextCall } from './workload.mjs';

/** Makes one call after the other. */
export class Lane {
  #run;
  #name;
  #calls = 0;

  constructor(run, name) {
    this.#run = run;
    this.#name = name;
  }

  async run() {
    const { random, config } = this.#run;
    while (!this.#run.isStopping) {
      const call = nextCall(random, config.workload);
      const calls = Array.from({ length: call.callers }, () => this.#run.turnstile.pass(() => this.call(call)));
      await Promise.all(calls);
      await sleep(random.between(0, config.pauseMs));
    }
  }

  async call(call) {
    const { client, log } = this.#run;
    this.#calls += 1;
    const op = `${this.#name}:${this.#calls}`;
    const { keys, mode, leaseMs, waitMs, abortAfterMs, permits, owner, fair } = call;
    log('call', { op, keys, mode, leaseMs, waitMs, abortAfterMs, permits, owner, fair });
    let settled = false;
    try {
      await client.use(call, async (lock) => {
        settled = true;
        await new Hold(this.#run, op, call, lock).work();
      });
    } catch (error) {
      // An error of the library after the grant is the loss that the signal has reported.
      if (settled) logStray(log, `call ${op}`, error);
      else log('failed', { op, code: codeOf(error), ...(error?.code === 'LOCK_STORE' && { text: error.message }) });
      if (!settled && error?.code !== 'LOCK_BUSY') await sleep(5);
    }
  }
}
