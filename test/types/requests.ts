import { LockInterceptor } from '../../lib/interceptor/lock.interceptor.js';
import type { KeySpec } from '../../lib/keys/key-spec.js';
import { lockKey } from '../../lib/keys/lock-key.js';

declare const dynamic: string;
declare const spec: KeySpec;
declare const anySpec: any;

interface Request {
  readonly params: Readonly<Record<string, string>>;
}

/** The fields of a request are unknown, but the text of a template is known. */
export const accepted = [
  LockInterceptor.for('orders'),
  LockInterceptor.for('user:<0.params.id>:<1.any.thing>', { ifBusy: 'skip' }),
  LockInterceptor.for(['acct:<0.body.from>', 'acct:<0.body.to>']),
  LockInterceptor.for((request: Request) => `{${request.params['id']}}`),
  LockInterceptor.for((request: Request) => [lockKey`user:${request.params['id'] ?? 'none'}`]),
  LockInterceptor.for((request, _response) => `${request.params.id}`),
  LockInterceptor.for(() => 'all', { onUnavailable: 'skip' }),
  LockInterceptor.for(dynamic),
  LockInterceptor.for(`${dynamic}:<0.params.id>`),
  LockInterceptor.for(spec),
  LockInterceptor.for(anySpec),
];

export const refused = [
  // @ts-expect-error braces
  LockInterceptor.for('user:${id}'),
  // @ts-expect-error braces in a list
  LockInterceptor.for(['users', 'user:{id}']),
  // @ts-expect-error braces in a text that is known in part
  LockInterceptor.for(`${dynamic}:{id}`),
  // @ts-expect-error arguments are numbered
  LockInterceptor.for('user:<params.id>'),
  // @ts-expect-error not closed
  LockInterceptor.for('user:<0.params.id'),
  // @ts-expect-error no key
  LockInterceptor.for(7),
];
