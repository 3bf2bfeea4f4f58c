import type { Duplex, Readable, Writable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import type { StreamableFile } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { lockKey } from '../../lib/keys/lock-key.js';
import { Locked, method, type Order } from './support.js';

declare const dynamic: string;

/** Nothing here may compile; `messages.ts` checks the texts of the compiler. */
export class Refused {
  // @ts-expect-error without parentheses
  @Locked
  async withoutParentheses(_id: string): Promise<void> {}

  // @ts-expect-error a default value is not seen by a wrapper
  @Locked('order:<0>')
  async defaultedParameter(_id = 'none'): Promise<void> {}

  // @ts-expect-error `this` cannot be reached
  @Locked('order:<this.tenant>')
  async instance(_id: string): Promise<void> {}

  // @ts-expect-error the key function is for another class
  @Locked(function (this: Vault, id: string) {
    return `${this.name}:${id}`;
  })
  async keyFunctionOfAnotherClass(_id: string): Promise<void> {}

  // @ts-expect-error a generator that does not wait
  @Locked('order:<0>')
  *generator(id: string): Generator<string> {
    yield id;
  }

  // @ts-expect-error a missing property, of an async generator
  @Locked('order:<0.idd>')
  async *asyncGenerator(order: Order): AsyncGenerator<Order> {
    yield order;
  }

  // @ts-expect-error an accessor
  @Locked('orders')
  get accessor(): Promise<number> {
    return Promise.resolve(1);
  }

  // @ts-expect-error a property
  @Locked('orders')
  property = async (): Promise<void> => {};

  // @ts-expect-error a parameter
  async parameter(@Locked('orders') _id: string): Promise<void> {}
}

// @ts-expect-error the method has no argument
Locked('order:<0>')(...method<() => Promise<void>>());
// @ts-expect-error the method has one argument
Locked('order:<1>')(...method<(id: string) => Promise<void>>());
// @ts-expect-error misspelt
Locked('order:<0.idd>')(...method<(order: Order) => Promise<void>>());
// @ts-expect-error misspelt below a property
Locked('city:<0.customer.address.town>')(...method<(order: Order) => Promise<void>>());
// @ts-expect-error the first is right, the second is not
Locked('order:<0.id>:<0.idd>')(...method<(order: Order) => Promise<void>>());
// @ts-expect-error an object
Locked('order:<0>')(...method<(order: Order) => Promise<void>>());
// @ts-expect-error a list
Locked('orders:<0>')(...method<(ids: string[]) => Promise<void>>());
// @ts-expect-error a symbol
Locked('order:<0>')(...method<(id: symbol) => Promise<void>>());
// @ts-expect-error may be a Date
Locked('order:<0>')(...method<(id: string | Date) => Promise<void>>());
// @ts-expect-error only one member of the union has it
Locked('thing:<0.version>')(...method<(thing: Order | { readonly id: string }) => Promise<void>>());
// @ts-expect-error the rest has Dates
Locked('all:<0>')(...method<(...days: readonly Date[]) => Promise<void>>());
// @ts-expect-error there may be no first one
Locked('all:<0>')(...method<(...ids: string[]) => Promise<void>>());
// @ts-expect-error there may be no third one
Locked('all:<2>')(...method<(from: string, to: string, ...ids: string[]) => Promise<void>>());
// @ts-expect-error a list of objects may be empty
Locked('item:<0.items.0.sku>')(...method<(order: Order) => Promise<void>>());
// @ts-expect-error below a name that the record may not have
Locked('order:<0.first.id>')(...method<(orders: { readonly [name: string]: Order }) => Promise<void>>());
// @ts-expect-error a name of a pattern that the record may not have
Locked('header:<0.x-tenant>')(...method<(headers: { readonly [name: `x-${string}`]: string }) => Promise<void>>());
// @ts-expect-error a name that only the index signature has
Locked('stock:<0.pears>')(...method<(stock: { [fruit: string]: number; apples: number }) => Promise<void>>());
// @ts-expect-error private, so not for other classes to name
Locked('vault:<0.code>')(...method<(vault: Vault) => Promise<void>>());
// @ts-expect-error a brace alone
Locked('order}:<0>')(...method<(id: string) => Promise<void>>());
// @ts-expect-error one template of the list has braces
Locked(['orders', 'order:{0}'])(...method<(id: string) => Promise<void>>());
// @ts-expect-error braces in a text that is only partly known
Locked(`${dynamic}:{0}`)(...method<(id: string) => Promise<void>>());
// @ts-expect-error an empty step
Locked('order:<0..id>')(...method<(order: Order) => Promise<void>>());
// @ts-expect-error a placeholder in a text that is only partly known
Locked(`${dynamic}:<0.idd>`)(...method<(order: Order) => Promise<void>>());
// @ts-expect-error the constraint of a generic method has no idd
Locked('thing:<0.idd>')(...method<<T extends { id: string }>(thing: T) => Promise<void>>());
// @ts-expect-error one template of the list
Locked(['acct:<0>', 'acct:<1>'])(...method<(from: string, to?: string) => Promise<void>>());
// @ts-expect-error a list of one
Locked(['order:<0.idd>'])(...method<(order: Order) => Promise<void>>());
// @ts-expect-error another type of argument
Locked((order: Order) => order.id)(...method<(id: string) => Promise<void>>());
// @ts-expect-error more arguments than the method has
Locked((id: string, step: number) => `${id}:${step}`)(...method<(id: string) => Promise<void>>());
// @ts-expect-error the argument may be undefined
Locked((id: string) => id)(...method<(id?: string) => Promise<void>>());
// @ts-expect-error the method may have fewer arguments
Locked((a: string, b: number | undefined, c: string) => `${a}:${b}:${c}`)(...method<(a: string) => Promise<void>>());
// @ts-expect-error there may be no first one
Locked((first: string) => first)(...method<(...ids: string[]) => Promise<void>>());
// @ts-expect-error a function of the first and the others, and there may be no first one
Locked((first: string, ...others: string[]) => [first, ...others])(...method<(...ids: string[]) => Promise<void>>());
// @ts-expect-error of another type than the argument before any others
Locked((id: number, step: number) => `${id}:${step}`)(...method<(id: string, ...args: any[]) => Promise<void>>());
// @ts-expect-error the constraint of a generic method is not a Date
Locked((day: Date) => day.toISOString())(...method<<T extends { id: string }>(thing: T) => Promise<void>>());
// @ts-expect-error a key function returns its key at once
Locked(async (id: string) => id)(...method<(id: string) => Promise<void>>());
// @ts-expect-error a key is a string
Locked((id: number) => id)(...method<(id: number) => Promise<void>>());
// @ts-expect-error a key may not be undefined
Locked((order: Order) => order.note)(...method<(order: Order) => Promise<void>>());
// @ts-expect-error a key is needed
Locked()(...method<() => Promise<void>>());
// @ts-expect-error a key is a text
Locked(7)(...method<() => Promise<void>>());
// @ts-expect-error the method does not return a promise
Locked('order:<0>')(...method<(id: string) => string>());
// @ts-expect-error the method may not return a promise
Locked('order:<0>')(...method<(id: string) => Promise<string> | string>());
// @ts-expect-error the method returns nothing
Locked('order:<0>')(...method<(id: string) => void>());
// @ts-expect-error a stream of Node
Locked('file:<0>')(...method<(name: string) => Readable>());
// @ts-expect-error a stream of Node, with a key function
Locked((name: string) => name)(...method<(name: string) => Readable>());
// @ts-expect-error a stream of Node that can also be written
Locked('files')(...method<() => Duplex>());
// @ts-expect-error a stream of Node that can only be written
Locked('files')(...method<() => Writable>());
// @ts-expect-error a stream of Node by its interface
Locked('files')(...method<() => NodeJS.ReadableStream>());
// @ts-expect-error sometimes a stream
Locked('files')(...method<() => Promise<string> | Readable>());
// @ts-expect-error a stream of the web
Locked('files')(...method<() => ReadableStream<Uint8Array>>());
// @ts-expect-error a stream in Nest's wrapping
Locked('files')(...method<() => StreamableFile>());
// @ts-expect-error not an argument, of a method that returns an Observable
Locked('order:<1>')(...method<(id: string) => Observable<Order>>());

export class Base<T extends { readonly id: string }> {
  // @ts-expect-error the constraint of the class's parameter is not a Date
  @Locked((day: Date) => day.toISOString())
  async keyFunction(_thing: T): Promise<void> {}

  // @ts-expect-error a known limit: a parameter of the class needs a key function
  @Locked('thing:<0.id>')
  async template(_thing: T): Promise<void> {}
}

export function genericMixin<Name extends string>(name: Name) {
  class Mixin {
    // @ts-expect-error a known limit: a text with a type parameter needs `as string`
    @Locked(`m:${name}:<0>`)
    async text(_id: string): Promise<void> {}

    // @ts-expect-error the same in a list
    @Locked(['all', `m:${name}:<0>`])
    async list(_id: string): Promise<void> {}
  }
  return Mixin;
}

// @ts-expect-error a class
@Locked('orders')
export class Vault {
  readonly name = 'vault';
  private readonly code = 'c';

  open(): string {
    return this.code;
  }
}

declare const optional: string | undefined;
// @ts-expect-error may be undefined
export const ofUndefined = lockKey`sku:${optional}`;
// @ts-expect-error may be null
export const ofNull = lockKey`sku:${null as string | null}`;
// @ts-expect-error an object
export const ofObject = lockKey`sku:${new Date()}`;
