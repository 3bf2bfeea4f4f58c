import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { currentLock, Locked } from 'nestjs-redis-lock';
import { INSTANCE } from '../instance.js';
import { OrderEventsRepository } from './order-events.repository.js';

const STEPS = 10;

export interface Order {
  readonly id: string;
}

/** The result of a charge. */
export interface Charge {
  readonly orderId: string;
  readonly instance: string;
  readonly fencingToken: number;
}

/** Charges orders: one charge per order at a time, across all instances. */
@Injectable()
export class OrdersService {
  readonly #chargeMs: number;

  constructor(
    config: ConfigService,
    private readonly events: OrderEventsRepository,
  ) {
    this.#chargeMs = Number(config.get('ORDER_CHARGE_MS', 1_000));
  }

  @Locked('order:<0.id>')
  async charge(order: Order): Promise<Charge> {
    const { fencingToken, signal } = currentLock();
    this.events.add(order.id, 'start', fencingToken);
    try {
      for (let step = 0; step < STEPS; step++) {
        await sleep(this.#chargeMs / STEPS);
        // Stop if the lock is lost: its next holder starts over.
        signal.throwIfAborted();
      }
    } catch (error) {
      this.events.add(order.id, 'stopped', fencingToken);
      throw error;
    }
    this.events.add(order.id, 'end', fencingToken);
    return { orderId: order.id, instance: INSTANCE, fencingToken };
  }
}
