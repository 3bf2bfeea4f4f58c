import 'reflect-metadata';
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Locker } from '../core/acquire/locker.js';
import { checkedKey } from '../core/key.js';
import { type LockLabel, NO_LABEL } from '../core/lock.events.js';
import { type LockDefaults, resolveLockOptions } from '../core/lock.options.js';
import { LogLimit } from '../core/log-limit.js';
import { Campaign, type CampaignParts } from './campaign.js';
import { checkLeadOptions, type LeaderHooks, type Leadership, type LeadOptions } from './leadership.js';
import { LockConfigurationError } from '../core/lock.errors.js';
import { partsOf } from '../redis-lock.parts.js';
import { hasSchedule, methodsOf, type Modules } from '../schedule/scheduler.js';

interface ObjectCampaign {
  readonly instance: object;
  readonly campaign: Campaign;
}

export class Leaders {
  readonly #parts: CampaignParts;
  /** The last campaign of an object, by its key. */
  readonly #ofObjects = new Map<string, ObjectCampaign>();
  /** Whether the app has started, and is not shutting down. */
  #isStarted = false;
  readonly #ending = { close: () => void (this.#isStarted = false) };

  constructor(
    private readonly locker: Locker,
    private readonly defaults: LockDefaults & { readonly drainMs: number },
  ) {
    const { clock, timers, reporter, runtime } = locker;
    this.#parts = {
      locker,
      random: runtime.random,
      log: new LogLimit(clock, timers, 'campaigns and hooks of leaders failed', (line) => reporter.error(line)),
      drainMs: defaults.drainMs,
      inOwnContext: AsyncLocalStorage.snapshot(),
    };
  }

  /** The app has started: begins the campaigns of its objects; those of later ones begin at once. */
  start(): void {
    this.#isStarted = true;
    this.locker.closing.add(this.#ending);
    for (const { campaign } of this.#ofObjects.values()) campaign.start();
  }

  /** Returns the object that campaigns for this key; undefined if no campaign is active. */
  find(key: string): object | undefined {
    const found = this.#ofObjects.get(key);
    return found?.campaign.isStopped ? undefined : found?.instance;
  }

  add(one: ObjectCampaign): void {
    this.#ofObjects.set(one.campaign.key, one);
    if (this.#isStarted) one.campaign.start();
  }

  /**
   * Begins a campaign.
   * @throws what `create` throws, or the reason of an aborted signal
   */
  lead(key: string, options: LeadOptions = {}): Campaign {
    const { signal, ...own } = checkLeadOptions(options);
    signal?.throwIfAborted();
    return this.create(key, own).start({ signal });
  }

  /**
   * Creates a campaign, which begins when it is started.
   * @throws LockKeyError, LockConfigurationError
   */
  create(key: string, { leaseMs, ...hooks }: LeadOptions, label: LockLabel = NO_LABEL): Campaign {
    // A term has no time limit, and an instance waits for its election as long as it runs.
    const options = { waitMs: Infinity, maxHoldMs: Infinity, ...(leaseMs === undefined ? {} : { leaseMs }) };
    const lock = resolveLockOptions(options, this.defaults);
    this.locker.request([checkedKey(key)], lock, label);
    const campaign = new Campaign({ key, label, lock, hooks }, this.#parts);
    this.locker.closing.add(campaign);
    return campaign;
  }
}

/** What `@Leader` stores about a class. */
export interface LeaderClass {
  readonly key: string;
  readonly leaseMs: number | undefined;
  readonly connection: string | undefined;
}

/** The metadata of a class with `@Leader`, and of each of its methods that run only on the leader; in every copy of the package. */
const LEADER = Symbol.for('nestjs-redis-lock:leader');
const ON_LEADER = Symbol.for('nestjs-redis-lock:on-leader');

const CAMPAIGNS = Symbol.for('nestjs-redis-lock:campaigns');
const shared = globalThis as { [CAMPAIGNS]?: WeakMap<object, Campaign> };
const campaigns = (shared[CAMPAIGNS] ??= new WeakMap());

export const markLeader = (prototype: object, leader: LeaderClass): void =>
  Reflect.defineMetadata(LEADER, leader, prototype);

export const isMarkedLeader = (prototype: object): boolean => Reflect.hasOwnMetadata(LEADER, prototype);

const leaderOf = (instance: object): LeaderClass | undefined =>
  Reflect.getMetadata(LEADER, Object.getPrototypeOf(instance) ?? {}) as LeaderClass | undefined;

export const markOnLeader = (method: Function): void => Reflect.defineMetadata(ON_LEADER, true, method);

/** The scheduled methods of a class that would run on each instance, also those that it inherits. */
export function* unguardedMethods(prototype: object): Generator<readonly [string | symbol, Function]> {
  for (const one of methodsOf(prototype)) {
    if (hasSchedule(one[1]) && !Reflect.hasMetadata(ON_LEADER, one[1])) yield one;
  }
}

/**
 * Returns the leadership of an object whose class has `@Leader`, as soon as Nest has built the object.
 * @throws LockConfigurationError
 */
export const leadershipOf = (instance: object): Leadership => campaignOf(instance, classNameOf(instance));

/** Without type checks, the value may be anything. */
const classNameOf = (value: unknown): string =>
  (value as { readonly constructor?: Function } | null | undefined)?.constructor?.name ?? 'leadershipOf()';

/**
 * Internal: returns the campaign of an object; `where` names the code that needs it.
 * @throws LockConfigurationError
 */
export function campaignOf(instance: unknown, where: string): Campaign {
  const isObject = typeof instance === 'object' && instance !== null;
  const campaign = isObject ? campaigns.get(instance) : undefined;
  if (campaign) return campaign;
  throw new LockConfigurationError(
    `${where} needs the leadership of an object that has none: Nest does not provide the object, its class has no @Leader, or ` +
      'its app has not begun to start. List the class in `providers`, and import RedisLockModule.forRoot().',
  );
}

/** Makes a campaign of an object whose class has `@Leader`; undefined for any other object, and for another connection. */
export function createCampaign(
  instance: object,
  leaders: Leaders,
  connection: string | undefined,
): Campaign | undefined {
  const leader = leaderOf(instance);
  if (!leader || leader.connection !== connection) return undefined;
  const { key, leaseMs } = leader;
  const where = instance.constructor.name;
  const hooks: LeaderHooks = {
    onElected: (term) => (instance as LeaderHooks).onElected?.(term),
    onDemoted: (term, reason) => (instance as LeaderHooks).onDemoted?.(term, reason),
  };
  const campaign = leaders.create(key, { leaseMs, ...hooks }, { where, template: key });
  campaigns.set(instance, campaign);
  return campaign;
}

/**
 * Nest has built an object of a class with `@Leader`, at the start of its app or later: it campaigns when the app has started.
 * @throws LockConfigurationError when another object of the app campaigns for its key
 */
export function addBuilt(instance: object, service: { readonly connection?: string | undefined }): void {
  const leaders = partsOf(service)?.leaders;
  if (leaders instanceof Leaders) addCampaign(instance, leaders, service.connection);
}

function addCampaign(instance: object, leaders: Leaders, connection: string | undefined): void {
  const leader = leaderOf(instance);
  if (!leader || leader.connection !== connection) return;
  const other = leaders.find(leader.key);
  if (other === instance) return;
  if (other) refuseSecond(other, instance, leader.key);
  leaders.add({ instance, campaign: createCampaign(instance, leaders, connection)! });
}

/** One object leads at a time, and keeps the lead as long as its process lives. */
function refuseSecond(first: object, second: object, key: string): never {
  const [one, other] = [first.constructor.name, second.constructor.name];
  throw new LockConfigurationError(
    `${one === other ? `Two objects of ${one}` : `An object of ${one} and one of ${other}`} campaign for "${key}" in one app: ` +
      'the second would never lead while the first one does. Put @Leader with its own key on each class, and let ' +
      'one module provide it.',
  );
}

/**
 * Makes the campaigns of the objects of an app whose class has `@Leader`, also of those that Nest has not built.
 * @throws LockConfigurationError for a class that is built for each request or injection, for a subclass with a scheduled
 *   method that would run on each instance, and for a second object with the same key
 */
export function addCampaigns(modules: Modules, leaders: Leaders, connection: string | undefined): void {
  for (const { providers, controllers } of modules.values()) {
    for (const wrapper of [...providers.values(), ...controllers.values()]) {
      const instance: unknown = wrapper.instance;
      if (typeof instance !== 'object' || instance === null || !leaderOf(instance)) continue;
      checkClass(instance, wrapper.isDependencyTreeStatic() && !wrapper.isTransient);
      addCampaign(instance, leaders, connection);
    }
  }
}

function checkClass(instance: object, isStatic: boolean): void {
  const { name } = instance.constructor;
  if (!isStatic) {
    throw new LockConfigurationError(
      `${name} has @Leader, but is built for each request or injection, so none of its objects could lead. Give it the ` +
        'default scope, and inject only providers of that scope.',
    );
  }
  for (const [method] of unguardedMethods(Object.getPrototypeOf(instance) as object)) {
    throw new LockConfigurationError(
      `${name}.${String(method)} has a schedule, and would run on every instance, because @Leader is on a base class: also ` +
        `put @Leader on ${name}.`,
    );
  }
}
