import { setTimeout as sleep } from 'node:timers/promises';
import { ConflictException, Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { RedisLockService } from 'nestjs-redis-lock';
import { timeOfDay } from '../lottery/fire-report.js';
import type { NewsletterAnswer } from '../newsletter/newsletter.controller.js';
import type { Charge } from '../orders/orders.service.js';
import { REPORTS } from '../reports/reports.leader.js';
import { INSTANCE_NAMES, InstanceGroup, type InstanceName } from '../runner/instance-group.js';
import { RedisWire } from './redis-wire.js';
import { type Moment, type Part, TimeLine } from './time-line.js';

/** How long an instance may take to answer; a frozen one does not. */
const ANSWER_WITHIN_MS = 15_000;
const LOOK_EVERY_MS = 500;

/** What the page shows. */
export interface PlaygroundState {
  readonly instances: readonly {
    readonly name: InstanceName;
    readonly state: 'starts' | 'runs' | 'frozen' | 'ended';
    readonly pid: number | null;
    readonly url: string | null;
    readonly leads: boolean;
  }[];
  /** Null if the wire to Redis cannot be cut. */
  readonly isRedisCut: boolean | null;
  readonly moments: readonly Moment[];
}

/** The provider token of the wire to Redis; its value may be null. */
export const REDIS_WIRE = Symbol('REDIS_WIRE');

/** Does to the instances what a reader requests, and what happens to them in production. */
@Injectable()
export class PlaygroundService implements OnModuleInit, OnApplicationShutdown {
  #leaderPid: number | null = null;
  #orders = 0;
  readonly #closing = new AbortController();

  constructor(
    private readonly group: InstanceGroup,
    private readonly timeLine: TimeLine,
    private readonly locks: RedisLockService,
    @Inject(REDIS_WIRE) private readonly wire: RedisWire | null,
  ) {}

  onModuleInit(): void {
    void this.#watchLeader();
  }

  onApplicationShutdown(): void {
    this.#closing.abort();
  }

  get state(): PlaygroundState {
    const instances = INSTANCE_NAMES.map((name) => {
      const instance = this.group.get(name);
      const pid = instance?.process.pid ?? null;
      const running = instance?.url === undefined ? 'starts' : 'runs';
      const state = !instance ? ('ended' as const) : instance.isFrozen ? ('frozen' as const) : running;
      return { name, state, pid, url: instance?.url ?? null, leads: pid !== null && pid === this.#leaderPid } as const;
    });
    return { instances, isRedisCut: this.wire?.isCut ?? null, moments: this.timeLine.moments };
  }

  /** Asks all instances at once to send one issue of the newsletter. */
  async sendNewsletter(): Promise<void> {
    if (this.group.ready.length === 0) throw new ConflictException('No instance runs.');
    const issue = Date.now();
    await this.#ask(`Newsletter of ${timeOfDay(issue)}`, this.group.ready, async (name) => {
      const { delivery } = await this.#post<NewsletterAnswer>(name, 'newsletter', { issue });
      if (!delivery) return { kind: 'skipped', text: 'skipped' };
      return { kind: 'won', text: `sent it (token ${delivery.fencingToken})` };
    });
  }

  /** Sends one order to two instances at the same time, as a user does who clicks twice. */
  async orderTwice(): Promise<void> {
    const [first, second = first] = this.group.ready.filter((name) => !this.group.get(name)!.isFrozen);
    if (first === undefined) throw new ConflictException('No instance runs.');
    const [order, began] = [(this.#orders += 1), performance.now()];
    const answer = async (name: InstanceName): Promise<Part> => {
      const { fencingToken } = await this.#post<Charge>(name, `orders/${order}/charge`, {});
      return {
        kind: 'won',
        text: `charged it after ${Math.round(performance.now() - began)} ms (token ${fencingToken})`,
      };
    };
    await this.#ask(`Order ${order}, twice`, [first, second!], answer);
  }

  async start(name: InstanceName): Promise<void> {
    if (this.group.get(name)) throw new ConflictException(`${name} has been started.`);
    this.timeLine.begin(`${name} was started`);
    try {
      await this.group.start(name);
    } catch (error) {
      this.timeLine.begin(`${name} did not start`);
      throw new ConflictException((error as Error).message);
    }
  }

  freeze(name: InstanceName): void {
    this.#expectRunning(name);
    this.group.freeze(name);
    this.timeLine.begin(`${name} was frozen`);
  }

  thaw(name: InstanceName): void {
    this.#expectRunning(name);
    this.group.thaw(name);
    this.timeLine.begin(`${name} continues`);
  }

  kill(name: InstanceName): void {
    this.#expectRunning(name);
    if (this.group.ready.length === 1)
      throw new ConflictException(`${name} is the last instance: start another first.`);
    this.group.kill(name);
    this.timeLine.begin(`${name} was killed`);
  }

  cutRedis(): void {
    this.#expectWire().cut();
    this.timeLine.begin('Redis was cut off');
  }

  mendRedis(): void {
    this.#expectWire().mend();
    this.timeLine.begin('Redis is back');
  }

  #expectRunning(name: InstanceName): void {
    if (!this.group.ready.includes(name)) throw new ConflictException(`${name} does not run.`);
  }

  #expectWire(): RedisWire {
    if (!this.wire) throw new ConflictException('The wire to this Redis cannot be cut: it is encrypted.');
    return this.wire;
  }

  /** Shows the answers as they come. */
  async #ask(title: string, names: readonly InstanceName[], ask: (name: InstanceName) => Promise<Part>): Promise<void> {
    const show = this.timeLine.begin(title);
    const silent = (error: Error): Part => ({ kind: 'silent', text: error.message });
    await Promise.all(names.map(async (name) => show(name, await ask(name).catch(silent))));
  }

  async #post<Answer>(name: InstanceName, path: string, body: object): Promise<Answer> {
    const response = await fetch(`${this.group.get(name)?.url}/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.any([this.#closing.signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]),
    }).catch((error: Error) => {
      throw new Error(error.name === 'TimeoutError' ? 'gave no answer' : 'broke off');
    });
    if (!response.ok) throw new Error(`answered with ${response.status}`);
    return (await response.json()) as Answer;
  }

  /** Redis may take a while to answer, or be cut off: the page does not wait for it. */
  async #watchLeader(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      const state = await this.locks.inspect(REPORTS).catch(() => undefined);
      this.#leaderPid = state?.holders[0]?.pid ?? null;
      await sleep(LOOK_EVERY_MS, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }
}
