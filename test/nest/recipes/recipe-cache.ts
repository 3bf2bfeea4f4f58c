import { Injectable } from '@nestjs/common';
import { Locked } from '../../../lib/index.js';

/** A cache that all instances share, such as Redis. */
export abstract class Cache {
  abstract get(key: string): Promise<string | undefined>;
  abstract set(key: string, value: string): Promise<void>;
}

/** The slow or expensive source. */
export abstract class PriceSource {
  abstract load(sku: string): Promise<string>;
}

@Injectable()
export class Prices {
  constructor(
    private readonly cache: Cache,
    private readonly source: PriceSource,
  ) {}

  async price(sku: string): Promise<string> {
    return (await this.cache.get(sku)) ?? this.refresh(sku);
  }

  /** One call of all instances loads; the calls of its process share the result, and the others find it in the cache. */
  @Locked('price:<0>', { ifBusy: 'share' })
  async refresh(sku: string): Promise<string> {
    const cached = await this.cache.get(sku);
    if (cached !== undefined) return cached;
    const price = await this.source.load(sku);
    await this.cache.set(sku, price);
    return price;
  }
}
