import type { KeySpec } from '../../lib/keys/key-spec.js';
import type {
  IfBusy,
  IfUnavailable,
  LockedMethodDecorator,
  OncePer,
  SkipOptions,
  SkippedBy,
} from '../../lib/decorators/locked-method.types.js';

/** The signature of the decorators, so that these tests need none of the code behind them. */
export declare function Locked<const K extends KeySpec, B extends IfBusy, P extends OncePer, U extends IfUnavailable>(
  key: K,
  options?: { readonly waitMs?: number } & SkipOptions<B, P, U>,
): LockedMethodDecorator<K, SkippedBy<B, P, U>>;

/** Compiles only when both types are the same. */
export type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

export declare function check<T extends true>(): T;

export type OrderId = string & { readonly brand: 'OrderId' };

export enum Region {
  Eu = 'eu',
  Us = 'us',
}

export interface Order {
  readonly id: OrderId;
  readonly version: number;
  readonly paid: boolean;
  readonly cents: bigint;
  readonly region: Region;
  readonly note?: string;
  readonly createdAt: Date;
  readonly customer: { readonly id: string; readonly address: { readonly city: string } };
  readonly guest?: { readonly id: string };
  readonly approver: { readonly id: string } | null;
  readonly items: readonly { readonly sku: string }[];
  readonly range: readonly [number, number];
}

/** The arguments of a decorator for a method of this type. */
export declare function method<M>(): [target: object, name: string, descriptor: TypedPropertyDescriptor<M>];
