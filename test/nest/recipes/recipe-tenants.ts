import { Injectable } from '@nestjs/common';
import { Limited, Locked } from '../../../lib/index.js';

export interface Tenant {
  readonly id: string;
  readonly seats: number;
}

@Injectable()
export class Exports {
  /** The tenant is a part of the key: the ids of orders are unique only there. */
  @Locked('tenant:<0.id>:order:<1>')
  async charge(tenant: Tenant, orderId: string): Promise<string> {
    return `${tenant.id} charged ${orderId}`;
  }

  /** At most the number that the tenant has paid for at a time, on all instances; the next one is refused. */
  @Limited('tenant:<0.id>:exports', (tenant: Tenant) => tenant.seats, { ifBusy: 'throw' })
  async export(tenant: Tenant, work: () => Promise<string>): Promise<string> {
    return `${tenant.id} exported ${await work()}`;
  }
}
