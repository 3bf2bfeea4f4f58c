import { type ServerEnd } from '../network/network.js';
import { type Rng, type World } from '../world/world.js';
import { type Member } from './member.js';
import { FIRST_SENTINEL, SET_NAME, type SimSentinel } from './sentinel.js';
import { type SimServer } from './sim-server.js';
import { FIRST_PORT, type FailoverPlan, type FailoverWatch, HOST, portOf, type Topology } from './topology.js';

/** An address that leads to the master, whichever that is. */
const VIRTUAL_PORT = 6_000;

interface Parts {
  readonly world: World;
  readonly rng: Rng;
  readonly members: readonly Member[];
  /** Empty: clients come by an address that moves. */
  readonly sentinels: readonly SimSentinel[];
  readonly watch: FailoverWatch;
}

/** A master and its replicas, behind an address that moves or behind Sentinel. */
export class ReplicaSet implements Topology {
  #master: Member;
  /** An old master that has not heard of the new one. */
  #old: Member | null = null;
  #isFailingOver = false;

  constructor(private readonly parts: Parts) {
    const [master, ...replicas] = parts.members;
    this.#master = master!;
    for (const replica of replicas) replica.follow(master!);
  }

  get connection(): object {
    const { sentinels } = this.parts;
    if (sentinels.length === 0) return { host: HOST, port: VIRTUAL_PORT };
    // The application names some of them; they report the others.
    const named = sentinels.slice(0, 2).map(({ id }) => ({ host: HOST, port: id }));
    return { sentinels: named, name: SET_NAME };
  }

  /**
   * Each sentinel is pinged now and then; an answer has a time limit. And a subscriber follows an idle given client, which may
   * be connected to the old master.
   */
  get idleTimers(): number {
    return 1 + 2 * this.parts.sentinels.length;
  }

  authorityOf(): SimServer {
    return this.#master.server;
  }

  at(port: number): ServerEnd {
    if (port === VIRTUAL_PORT) return this.#master.server;
    return this.parts.sentinels[port - FIRST_SENTINEL] ?? this.parts.members[port - FIRST_PORT]!.server;
  }

  partition(server: number, ms: number): void {
    const replica = this.parts.members[server]!;
    const link = replica.master?.links.get(replica);
    if (link) link.cutUntil = Math.max(link.cutUntil, this.parts.world.now + ms);
  }

  stopSentinel(sentinel: number, ms: number, isSilent: boolean): void {
    this.parts.sentinels[sentinel]?.stop(ms, isSilent);
  }

  failover({ how, ms, pick }: FailoverPlan): void {
    const { world, rng } = this.parts;
    if (this.#isFailingOver || this.#old) return;
    const old = this.#master;
    if (how !== 'crash') return this.#promote(old, pick, ms);
    this.#isFailingOver = true;
    old.server.crash(ms, false, rng.chance(0.3), 0);
    // The sentinels, or an operator, have to notice it first.
    world.after(rng.float(200, 1_500), null, 'server', () => {
      this.#isFailingOver = false;
      this.#promote(old, pick, Math.max(0, old.isUp ? 0 : ms));
    });
  }

  /** `staleMs`: how long the old master is not informed. */
  #promote(old: Member, pick: number, staleMs: number): void {
    const { world, rng, watch, members } = this.parts;
    const next = this.#candidate(pick);
    if (!next) return;
    world.log(() => `${next.server.name} takes over from ${old.server.name}`);
    next.promote();
    this.#master = next;
    this.#old = old;
    watch.onPromotion(old.server, next.server);
    this.#tellSentinels(old, next);
    for (const other of members) {
      if (other === next || other === old) continue;
      world.after(rng.float(0, 500), null, 'server', () => this.#master === next && other.follow(next));
    }
    const demotedAt = world.now + staleMs + rng.float(600, 1_600);
    watch.trouble(demotedAt);
    world.at(demotedAt, null, 'server', () => this.#demote(old, next));
  }

  #demote(old: Member, next: Member): void {
    const { world, sentinels, watch } = this.parts;
    if (!old.isUp) {
      watch.trouble(world.now + 500);
      return void world.after(500, null, 'server', () => this.#demote(old, next));
    }
    world.log(() => `${old.server.name} follows ${next.server.name}`);
    this.#old = null;
    old.follow(next);
    // Sentinel ends the connections to a server whose role it changes; an operator does not.
    if (sentinels.length > 0) for (const socket of old.server.sockets) socket.closeServer(true);
  }

  /** The replica that is least behind of those that can be reached; or another one that can be. */
  #candidate(pick: number): Member | undefined {
    const replicas = this.parts.members.filter(({ master, isUp }) => master === this.#master && isUp);
    const sorted = replicas.toSorted((a, b) => b.entries.length - a.entries.length);
    return sorted[pick % sorted.length];
  }

  /** The leader announces it first; the others hear of it from the leader. */
  #tellSentinels(old: Member, next: Member): void {
    const { world, rng, sentinels } = this.parts;
    const [before, port] = [portOf(old.server), portOf(next.server)];
    if (sentinels.length === 0) return;
    for (const socket of next.server.sockets) socket.closeServer(true);
    const leader = rng.int(0, sentinels.length - 1);
    for (const [i, sentinel] of sentinels.entries()) {
      if (i === leader) sentinel.onPromoted(port);
      const switchesMs = i === leader ? rng.float(0, 1_500) : rng.float(100, 2_000);
      const tell = (): void => {
        if (sentinel.reach === 'accepts') sentinel.onSwitched(before, port);
        else world.after(500, null, 'server', tell);
      };
      world.after(switchesMs, null, 'server', tell);
    }
  }
}
