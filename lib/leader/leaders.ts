import { AsyncLocalStorage } from 'node:async_hooks';
import { type Locker } from '../core/acquire/locker.js';
import { checkedKey } from '../core/key.js';
import { type LockLabel, NO_LABEL } from '../core/lock.events.js';
import { type LockDefaults, resolveLockOptions } from '../core/lock.options.js';
import { LogLimit } from '../core/log-limit.js';
import { Campaign, type CampaignParts } from './campaign.js';
import { type LeadOptions, checkLeadOptions } from './lead.options.js';

interface ObjectCampaign {
  readonly instance: object;
  readonly campaign: Campaign;
}

/** Begins the campaigns of a module. */
export class Leaders {
  readonly #parts: CampaignParts;
  /** The last campaign of an object with this id. */
  readonly #ofObjects = new Map<string, ObjectCampaign>();
  /** Whether the app has started, and does not shut down. */
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

  /** Returns the campaign that an object has under this id, or the object that has it; undefined when no campaign goes on. */
  find(id: string): ObjectCampaign | undefined {
    const found = this.#ofObjects.get(id);
    return found?.campaign.isStopped ? undefined : found;
  }

  /** Adds the campaign of an object of the app. */
  add(id: string, one: ObjectCampaign): void {
    this.#ofObjects.set(id, one);
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
   * Makes a campaign that begins later, when it is started.
   * @throws LockKeyError, LockConfigurationError
   */
  create(key: string, { leaseMs, ...hooks }: LeadOptions, label: LockLabel = NO_LABEL): Campaign {
    // A term has no end of its own, and an instance waits for its election for as long as it runs.
    const options = { waitMs: Infinity, maxHoldMs: Infinity, ...(leaseMs === undefined ? {} : { leaseMs }) };
    const lock = resolveLockOptions(options, this.defaults);
    this.locker.request([checkedKey(key)], lock, label);
    const campaign = new Campaign({ key, label, lock, hooks }, this.#parts);
    this.locker.closing.add(campaign);
    return campaign;
  }
}
