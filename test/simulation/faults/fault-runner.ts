import { type Facts, KEY_PREFIX } from '../checker/facts.js';
import { type Socket } from '../network/network.js';
import { type SimServer } from '../server/sim-server.js';
import { type Application } from '../workload/application.js';
import { type FaultKind, type FaultOf, type PlannedFault } from '../workload/plan.js';

/** The processes of a run. */
export interface Stage {
  /** The application that runs in a slot; undefined while none does. */
  in(slot: number): Application | undefined;
  /** Ends the process of an application, and starts another one in its place after `ms`. */
  replace(app: Application, ms: number): void;
  shutDown(app: Application, drainMs: number, ms: number): void;
}

type Run<Kind extends FaultKind> = (fault: FaultOf<Kind>) => void;

/** Causes the faults of a plan, and reports to the checker how long they last. */
export class FaultRunner {
  readonly #run: { readonly [Kind in FaultKind]: Run<Kind> };

  constructor(
    private readonly facts: Facts,
    private readonly stage: Stage,
  ) {
    this.#run = {
      reset: (fault) => this.#reset(fault),
      deaf: (fault) => this.#deafen(fault),
      cut: (fault) => this.#cut(fault),
      slow: (fault) => this.#slow(fault),
      stop: ({ slot, ms }) => this.#stop(slot, ms, false),
      sleep: ({ slot, ms }) => this.#stop(slot, ms, true),
      kill: ({ slot, ms }) => this.#onApp(slot, 0, (app) => stage.replace(app, ms)),
      shutdown: ({ slot, drainMs, ms }) => this.#onApp(slot, 0, (app) => stage.shutDown(app, drainMs, ms)),
      setWall: (fault) => this.#setWall(fault),
      closeGiven: ({ slot }) => this.#onApp(slot, 0, (app) => app.given?.disconnect()),
      revoke: ({ slot, key }) =>
        this.#onApp(slot, null, (app) => {
          facts.called('forceRelease');
          void app.service.forceRelease(key).catch(() => undefined);
        }),
      stall: ({ server, ms }) => this.#onServer(server, ms, (one) => (one.stalledUntil = this.#now + ms)),
      busyServer: (fault) => this.#slowServer(fault),
      crash: (fault) => this.#crash(fault),
      stepClock: ({ server, ms }) => this.#onServer(server, 0, (one) => this.#step(one, ms)),
      flushScripts: ({ server }) => this.#onServer(server, null, (one) => one.forgetScripts()),
      refuse: (fault) => this.#refuse(fault),
      foreignKey: (fault) => this.#foreign(fault),
      deleteKey: ({ server, key }) => this.#onServer(server, null, (one) => this.#delete(one, key)),
      ...topologyFaults(facts),
    };
  }

  run(fault: PlannedFault): void {
    this.facts.count(`fault: ${fault.kind}`);
    this.facts.world.log(() => `fault ${JSON.stringify(fault)}`);
    (this.#run[fault.kind] as Run<any>)(fault);
  }

  get #now(): number {
    return this.facts.world.now;
  }

  /** Runs code in a process; `ms`: how long the trouble lasts, null if it is none. */
  #onApp(slot: number, ms: number | null, act: (app: Application) => void): void {
    const app = this.stage.in(slot);
    if (!app || app.process.isStopped) return;
    if (ms !== null) this.facts.trouble(this.#now + ms, app.process);
    this.facts.world.after(0, app.process, 'plan', () => act(app));
  }

  #onServer(server: number, ms: number | null, act: (server: SimServer) => void): void {
    const one = this.facts.network.servers[server]!;
    if (ms !== null) this.facts.trouble(this.#now + ms);
    act(one);
  }

  #later(ms: number, act: () => void): void {
    this.facts.world.after(ms, null, 'fault', act);
  }

  #socket(slot: number, pick: number): Socket | undefined {
    const app = this.stage.in(slot);
    const sockets = app ? [...this.facts.network.of(app.process).sockets] : [];
    return sockets[pick % sockets.length];
  }

  #reset({ slot, pick, clientMs, serverMs }: FaultOf<'reset'>): void {
    const socket = this.#socket(slot, pick);
    if (!socket) return;
    this.facts.trouble(this.#now + Math.max(clientMs, serverMs), socket.process);
    socket.reset(clientMs, serverMs);
  }

  /** The path forgets a connection in one direction or in both; in the end one side notices. */
  #deafen({ slot, pick, up, down, ms }: FaultOf<'deaf'>): void {
    const socket = this.#socket(slot, pick);
    if (!socket) return;
    this.facts.trouble(this.#now + ms, socket.process);
    if (up) socket.deafUp = true;
    if (down) socket.deafDown = true;
    this.#later(ms, () => socket.reset(0, 0));
  }

  #cut({ slot, server, up, down, ms }: FaultOf<'cut'>): void {
    const link = this.facts.network.link(slot, server);
    this.facts.trouble(this.#now + ms, slot);
    if (up) link.cutUp = Math.max(link.cutUp, this.#now + ms);
    if (down) link.cutDown = Math.max(link.cutDown, this.#now + ms);
  }

  #slow({ slot, server, slowMs, ms }: FaultOf<'slow'>): void {
    const link = this.facts.network.link(slot, server);
    this.facts.trouble(this.#now + ms, slot);
    Object.assign(link, { slowUntil: this.#now + ms, slowMs });
  }

  #stop(slot: number, ms: number, isSleep: boolean): void {
    const app = this.stage.in(slot);
    if (!app) return;
    this.facts.trouble(this.#now + ms, app.process);
    app.process.stop(ms, isSleep);
  }

  #setWall({ slot, ms }: FaultOf<'setWall'>): void {
    const process = this.stage.in(slot)?.process;
    if (!process) return;
    this.facts.trouble(this.#now, process);
    process.wallOffset += ms;
    process.wallSetAt = this.#now;
  }

  #slowServer({ server, costMs, ms }: FaultOf<'busyServer'>): void {
    this.#onServer(server, ms, (one) => {
      one.costMs = costMs;
      this.#later(ms, () => (one.costMs = 0));
    });
  }

  #crash({ server, ms, losesData, isSilent, loadingMs }: FaultOf<'crash'>): void {
    this.#onServer(server, ms + loadingMs, (one) => one.crash(ms, losesData, isSilent, loadingMs));
  }

  #refuse({ server, text, ms }: FaultOf<'refuse'>): void {
    this.#onServer(server, ms, (one) => {
      one.refusal = text;
      this.#later(ms, () => (one.refusal = null));
    });
  }

  #step(server: SimServer, ms: number): void {
    if (ms > 0) this.facts.forget('all');
    else this.facts.forget(undefined, Infinity);
    server.step(ms);
  }

  /** An operator deletes a lock, or Redis evicts it. */
  #delete(server: SimServer, key: string): void {
    server.data.delete(KEY_PREFIX + key);
    server.wipes.push(this.#now);
    this.facts.forget([key]);
  }

  /** Another program stores something else under the name of a lock, and removes it again. */
  #foreign({ server, key, ms }: FaultOf<'foreignKey'>): void {
    this.#onServer(server, ms, (one) => {
      const { strangers } = one;
      strangers.add(KEY_PREFIX + key);
      this.facts.foreignUntil.set(KEY_PREFIX + key, this.#now + ms);
      this.#later(ms, () => strangers.delete(KEY_PREFIX + key));
    });
  }
}

/** The faults of servers that belong together. */
function topologyFaults(facts: Facts) {
  const topology = () => facts.network.topology!;
  const trouble = (ms: number): void => facts.trouble(facts.world.now + ms);
  return {
    failover: (fault: FaultOf<'failover'>) => {
      trouble(fault.ms);
      topology().failover(fault);
    },
    partitionReplica: ({ server, ms }: FaultOf<'partitionReplica'>) => {
      // Grants wait for replicas.
      if (facts.plan.profile.minReplicas > 0) trouble(ms);
      topology().partition(server, ms);
    },
    stopSentinel: ({ sentinel, ms, isSilent }: FaultOf<'stopSentinel'>) => {
      trouble(ms);
      facts.failovers.sentinelsUntil = Math.max(facts.failovers.sentinelsUntil, facts.world.now + ms);
      topology().stopSentinel?.(sentinel, ms, isSilent);
    },
    moveSlot: ({ key, to, ms }: FaultOf<'moveSlot'>) => {
      trouble(ms);
      topology().moveSlot?.(KEY_PREFIX + key, to, ms);
    },
  };
}
