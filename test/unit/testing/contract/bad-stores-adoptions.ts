import { type BadStore, badAdopt, lockOf } from './bad-stores.js';

/** Stores that are bad at adoptions: who goes on with a hold, and what is left of its first attempt. */
export const BAD_ADOPTIONS: readonly BadStore[] = [
  {
    name: 'an adoption only renews what the first attempt holds',
    store: badAdopt(async ({ from, ...asked }, store) => {
      const lease = { mode: 'write', owner: undefined, timeoutMs: 1_000 } as const;
      const [reply] = await store.renew([{ ...asked, ...lease, attempt: from }]);
      return reply!.outcome === 'renewed' ? { outcome: 'adopted', remainingMs: reply!.remainingMs } : (reply as never);
    }),
    noticedBy: 'a hold can be adopted once',
  },
  {
    name: 'an adoption is a new grant',
    store: badAdopt(async (asked, store, send) => {
      const reply = await send(asked);
      const hold = lockOf(store, asked.key).holds.get(asked.attempt);
      if (hold) Object.assign(hold, { token: hold.token + 1 });
      return reply;
    }),
    noticedBy: 'an adopted hold keeps its fencing token, its owner, its mode and the time of its grant',
  },
  {
    name: 'an adopted hold goes on naming its first holder',
    store: badAdopt((asked, _store, send) => send({ ...asked, holder: 'host-1:4711 Orders.pay' })),
    noticedBy: 'an adopted hold names its new holder',
  },
  {
    name: 'an adoption shortens the lease',
    store: badAdopt(async (asked, store, send) => {
      const reply = await send(asked);
      const hold = lockOf(store, asked.key).holds.get(asked.attempt);
      return hold ? { outcome: 'adopted', remainingMs: (hold.lease = asked.leaseMs) } : reply;
    }),
    noticedBy: 'an adoption extends the lease, and never shortens it',
  },
  {
    name: 'an adoption that is sent again is lost',
    store: badAdopt(async (asked, store, send) => {
      const isAgain = lockOf(store, asked.key).holds.has(asked.attempt);
      return isAgain ? { outcome: 'lost', lastToken: asked.fencingToken, revoked: false } : send(asked);
    }),
    noticedBy: 'an adoption that is sent again returns the same reply, and counts once',
  },
  {
    name: 'the first attempt is forgotten',
    store: badAdopt(async (asked, store, send) => {
      const reply = await send(asked);
      lockOf(store, asked.key).released.length = 0;
      return reply;
    }),
    noticedBy: 'what the first attempt still sends after the adoption changes nothing',
  },
  {
    name: 'tokens are not compared',
    store: badAdopt((asked, store, send) => {
      const hold = lockOf(store, asked.key).holds.get(asked.from);
      return send(hold ? { ...asked, fencingToken: hold.token } : asked);
    }),
    noticedBy: 'a hold that has ended, or with another token, cannot be adopted',
  },
  {
    name: 'a caller that has given up gets the hold',
    store: badAdopt((asked, store, send) => {
      const { released } = lockOf(store, asked.key);
      released.splice(0, 1);
      return send(asked);
    }),
    noticedBy: 'an attempt that was given back adopts nothing',
  },
  {
    name: 'commands that may still come are forgotten soon',
    store: badAdopt((asked, _store, send) => send({ ...asked, unanswered: false })),
    noticedBy: 'an acquire of the first attempt without an answer is refused long after the adoption',
  },
  {
    name: 'a revoked hold is only gone',
    store: badAdopt(async (asked, _store, send) => {
      const reply = await send(asked);
      return reply.outcome === 'lost' ? { ...reply, revoked: false } : reply;
    }),
    noticedBy: 'a hold that an operator revokes cannot be adopted',
  },
  {
    name: 'an adoption lets the next one in',
    store: badAdopt(async (asked, store, send) => {
      const reply = await send(asked);
      await store.release({ key: asked.key, attempt: asked.attempt, holdAtLeastMs: 0, leaseMs: 0 });
      return reply;
    }),
    noticedBy: 'waiters go on waiting while a hold is adopted, and are served when it is released',
  },
];
