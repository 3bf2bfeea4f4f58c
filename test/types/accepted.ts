import type { Readable } from 'node:stream';
import type { Observable } from 'rxjs';
import type { KeySpec } from '../../lib/keys/key-spec.js';
import { lockKey } from '../../lib/keys/lock-key.js';
import type { LockedMethodDecorator } from '../../lib/decorators/locked-method.types.js';
import { Locked, method, type Order, type OrderId, type Region } from './support.js';

declare const dynamic: string;
declare const dynamicList: readonly string[];
declare const field: string;
declare const anySpec: any;
declare const spec: KeySpec;

interface Item {
  readonly sku: string;
}

/** Everything here must compile: keys whose placeholders are arguments of the method and have one string form. */
export class Accepted {
  readonly tenant = 'eu';
  private readonly secret = 's';

  @Locked('order:<0>')
  static async ofTheClass(_id: string): Promise<void> {}

  @Locked('order:<0>')
  private async hidden(_id: string): Promise<void> {}

  @Locked('order:<0>')
  protected async inherited(_id: string): Promise<void> {}

  @Locked('order:<0>')
  async *asyncGenerator(id: string): AsyncGenerator<string, number, boolean> {
    yield id;
    return 1;
  }

  @Locked((order: Order) => order.id)
  async *inferredAsyncGenerator(order: Order) {
    yield order.id;
  }

  @Locked('things')
  async *genericAsyncGenerator<T extends { id: string }>(thing: T): AsyncGenerator<T> {
    yield thing;
  }

  static keyOf(order: Order): string {
    return order.id;
  }

  @Locked(function (this: { readonly tenant: string }, id: string) {
    return `${this.tenant}:${id}`;
  })
  async keyFunctionOfAPartOfTheInstance(_id: string): Promise<void> {}

  @Locked(function (this: Accepted, id: string) {
    return `${this.tenant}:${this.secret}:${id}`;
  })
  async keyFunctionOfTheInstance(_id: string): Promise<void> {}
}

Locked('orders')(...method<() => Promise<void>>());
Locked('order:<0>')(...method<(id: string) => Promise<void>>());
Locked('order:<0.id>:<1>', { waitMs: 0 })(...method<(order: Order, step: number) => Promise<void>>());
Locked('order:<0.version>:<0.paid>:<0.cents>')(...method<(order: Order) => Promise<void>>());
Locked('city:<0.customer.address.city>')(...method<(order: Order) => Promise<void>>());
Locked('region:<0>:<1.region>')(...method<(region: Region, order: Order) => Promise<void>>());
Locked('order:<0>')(...method<(id: OrderId) => Promise<void>>());
Locked('job:<0>')(...method<(id: 'daily' | 'hourly' | 7) => Promise<void>>());
Locked('thing:<0.id>')(...method<(thing: Order | { readonly id: number }) => Promise<void>>());
Locked('range:<0.range.0>-<0.range.1>:<1.0>')(...method<(order: Order, pair: [string, Date]) => Promise<void>>());
Locked('item:<0.items.0.sku>:<0.items.length>')(
  ...method<(order: { readonly items: readonly [Item, ...Item[]] }) => Promise<void>>(),
);
Locked('all:<0>')(...method<(...ids: [string, ...string[]]) => Promise<void>>());
Locked('all:<0>:<1>')(...method<(...ids: any[]) => Promise<void>>());
Locked((...ids: string[]) => ids)(...method<(...ids: string[]) => Promise<void>>());
Locked((first?: string) => first ?? 'none')(...method<(...ids: readonly string[]) => Promise<void>>());
Locked((from: string, first: string | undefined, ...others: string[]) => [from, first ?? 'none', ...others])(
  ...method<(from: string, ...ids: string[]) => Promise<void>>(),
);
Locked((id: string, step: number) => `${id}:${step}`)(...method<(...args: any[]) => Promise<void>>());
Locked((id: string, step: number) => `${id}:${step}`)(...method<(id: string, ...args: any[]) => Promise<void>>());
Locked('stock:<0.apples>')(...method<(stock: { readonly [fruit: string]: number; apples: number }) => Promise<void>>());
Locked('stock:<0.apples>:<0.pears>')(...method<(stock: Record<'apples' | 'pears', number>) => Promise<void>>());
Locked('stock:<0.apples>')(...method<(stock: Record<string, any>) => Promise<void>>());
Locked('length:<0.length>')(...method<(id: string) => Promise<void>>());
Locked('any:<0>:<0.id>:<0.customer.id>')(...method<(order: any) => Promise<void>>());
Locked('thing:<0.id>')(...method<<T extends { id: string }>(thing: T) => Promise<T>>());
Locked('order:<0>')(...method<(id: string, note?: string) => Promise<void>>());
Locked('order:<0>')(...method<(id: string) => PromiseLike<number>>());
Locked('order:<0>')(...method<(id: string) => Promise<number> | Promise<string>>());
Locked('order:<0>')(...method<(id: string) => any>());
Locked('order:<0>')(...method<(id: string) => Observable<Order>>());
Locked((id: string) => id)(...method<(id: string) => Observable<Order>>());
Locked('order:<0>')(...method<(id: string) => Promise<Observable<Order>>>());
Locked('order:<0>')(...method<(id: string) => { subscribe(observer: (id: string) => void): void; pipe(): unknown }>());
Locked('order:<0>')(...method<(id: string) => AsyncIterable<Order>>());
Locked('order:<0>')(...method<(id: string) => Promise<Order> | Observable<Order>>());
/** A known limit: only refused at run time. */
Locked('file:<0>')(...method<(name: string) => Promise<Readable>>());
Locked('a > b')(...method<() => Promise<void>>());
Locked('<<0.idd>:<0>')(...method<(id: string) => Promise<void>>());
Locked('<<<0>')(...method<(id: string) => Promise<void>>());
Locked('<0><<<1>:a<<')(...method<(id: string, part: number) => Promise<void>>());
Locked(['acct:<0>', 'acct:<1>'])(...method<(from: string, to: string) => Promise<void>>());
Locked(['orders', 'order:<0.id>'])(...method<(order: Order) => Promise<void>>());
Locked((order: Order) => `order:${order.id}`)(...method<(order: Order) => Promise<void>>());
Locked((order: Order) => [`order:${order.id}`, `customer:${order.customer.id}`])(
  ...method<(order: Order) => Promise<void>>(),
);
Locked((id: string) => id)(...method<(id: string, step: number) => Promise<void>>());
Locked((id: string | number, note?: string) => `${id}:${note ?? ''}`)(
  ...method<(id: string, note?: string) => Promise<void>>(),
);
Locked((id: string | undefined) => id ?? 'none')(...method<(id?: string) => Promise<void>>());
Locked((a: string, b: number | undefined, c: string) => `${a}:${b ?? 0}:${c}`)(
  ...method<(a: string, b: number, c: string) => Promise<void>>(),
);
Locked(() => 'orders')(...method<(id?: string) => Promise<void>>());
Locked((from: string, ...amounts: number[]) => amounts.map((amount) => `${from}:${amount}`))(
  ...method<(from: string, one: number, two: number) => Promise<void>>(),
);
Locked((thing: { readonly id: string }) => thing.id)(
  ...method<<T extends { id: string }>(thing: T) => Promise<void>>(),
);
Locked(<T extends { readonly id: string }>(thing: T) => thing.id)(...method<(order: Order) => Promise<void>>());
Locked(encodeURIComponent)(...method<(id: string) => Promise<void>>());
Locked(Accepted.keyOf)(...method<(order: Order) => Promise<void>>());
Locked((...ids: string[]) => ids)(...method<(...ids: string[]) => Promise<void>>());
Locked((order) => `order:${order.id}`)(...method<(order: Order) => Promise<void>>());
Locked(dynamic)(...method<() => Promise<void>>());
Locked(dynamicList)(...method<() => Promise<void>>());
Locked(`${dynamic}:<0.id>:${dynamic}`)(...method<(order: Order) => Promise<void>>());
Locked(`order:<${field}>:<0.${field}>:<0.id>:<${field}`)(...method<(order: Order) => Promise<void>>());
Locked((order: Order) => lockKey`order:${order.id}:${order.version}:${order.cents}:${order.paid}:${order.region}`)(
  ...method<(order: Order) => Promise<void>>(),
);
Locked((id: string) => `{${id}}`)(...method<(id: string) => Promise<void>>());
Locked(anySpec)(...method<(order: Order) => Promise<void>>());
Locked(spec)(...method<(order: Order) => Promise<void>>());

/** In a mixin, a template is partly known. */
export function lockedMixin(name: string, kind: 'a' | 'b') {
  class Mixin {
    @Locked(`m:${name}:<0>`)
    async string(_id: string): Promise<void> {}

    @Locked([`m:${name}:<0.id>`, `m:${kind}:<1>`])
    async list(_order: Order, _step: number): Promise<void> {}
  }
  return Mixin;
}

/** A text with a type parameter is checked at run time, when it is declared as any text. */
export function genericMixin<Name extends string, Base extends new (...args: any[]) => object>(name: Name, base: Base) {
  class Mixin extends base {
    @Locked(`m:${name}:<0>` as string)
    async string(_id: string): Promise<void> {}

    @Locked((id: string) => `m:${name}:${id}`)
    async keyFunction(_id: string): Promise<void> {}
  }
  return Mixin;
}

/** Declared elsewhere as a constant, a template keeps its literal type and is checked. */
const ORDER_KEY = 'order:<0.id>';
const BOTH_KEYS = ['acct:<0>', 'acct:<1>'] as const;

/** A custom decorator passes the check on. */
const ShortLock = <const K extends KeySpec>(key: K): LockedMethodDecorator<K> => Locked(key, { waitMs: 1 });

export abstract class Base<T extends { readonly id: string }> {
  @ShortLock('order:<0.id>')
  async ownDecorator(_order: Order): Promise<void> {}

  @ShortLock((order: Order) => order.id)
  async ownDecoratorWithKeyFunction(_order: Order): Promise<void> {}

  @Locked(ORDER_KEY)
  async constant(_order: Order): Promise<void> {}

  @Locked(BOTH_KEYS)
  async constants(_from: string, _to: string): Promise<void> {}

  @Locked('things')
  promiseOfTheParameter(): Promise<T> {
    throw new Error();
  }

  @Locked('things')
  promiseOfThis(): Promise<this> {
    throw new Error();
  }

  @Locked('things')
  observableOfTheParameter(): Observable<T> {
    throw new Error();
  }

  @Locked('things')
  iterableOfTheParameter(): AsyncIterable<T> {
    throw new Error();
  }

  @Locked((thing: { readonly id: string }) => thing.id)
  async parameterOfTheClass(_thing: T): Promise<void> {}

  @Locked((...things: readonly { readonly id: string }[]) => things.map((thing) => thing.id))
  async parametersOfTheClass(_first: T, ..._others: T[]): Promise<void> {}
}

/** The result of an inner decorator needs no cast. */
declare function decorate(target: object, name: string | symbol, descriptor: PropertyDescriptor): void;

export function WriteLocked<const K extends KeySpec>(_key: K): LockedMethodDecorator<K> {
  return decorate;
}
