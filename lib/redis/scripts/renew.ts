import { arg, key, lua } from './lua.js';
import { NEW_DEADLINE, defineOperation } from './operation.js';
import { EXPIRY } from './parts/expiry.js';
import { LIVE_HOLD } from './parts/live-hold.js';
import { MAKE_READ } from './parts/make-read.js';
import { NEW_LEASE } from './parts/new-lease.js';
import { SAVE } from './parts/save.js';
import { inOrder } from './parts/script-part.js';
import { STATE } from './parts/state.js';

const lock = key('lock');
const attempt = arg('attempt');

/** Extends the lease of a packed lock, as the text behind it would (see acquire). */
const PLAIN_RENEW = lua`
if ${arg('plain')} == '1' then
  local sub, attempt, lease = string.sub, ${attempt}, ${arg('leaseMs')}
  local packed = redis.call('HGET', ${lock}, 's')
  if packed and sub(packed, 41) == attempt and sub(packed, 1, 1) == '1' then
    ${NEW_DEADLINE}
    local before = sub(packed, 18, 30)
    if sub(packed, 2, 17) == ${arg('token')} and now_ms < before and before <= new_deadline then
      redis.call('PEXPIRE', ${lock}, ${arg('ttlMs')})
      redis.call('HSET', ${lock}, 's', sub(packed, 1, 17) .. new_deadline .. lease .. attempt)
      return 'renewed ' .. attempt
    end
  end
end
`;

/**
 * Extends the lease of a live hold to its full length again; never shortens it, and never brings back a hold that has
 * ended. A write hold that its client has downgraded becomes a read hold, as this server has missed the downgrade.
 *
 * KEYS: `lock`. ARGV: `attempt`, `token`, `leaseMs` of 10 digits, `mode`, `keepMs`, `channelPrefix`, `countReceivers`; for
 * the plain path `plain` 1 for a writer, and `ttlMs`, the time to live of the key.
 *
 * Reply, on the plain path: `renewed attempt` as one text. Otherwise a list: `renewed attempt now remainingMs`, or
 * `lost attempt now token revoked` with the lock's last token, which is greater than the caller's when another attempt was
 * granted since; `revoked` is 1 when an operator ended the hold, else 0.
 */
export const RENEW = defineOperation({
  kind: 'renew',
  own: ['attempt', 'token'],
  plain: PLAIN_RENEW,
  full: lua`${inOrder(STATE, SAVE, EXPIRY, LIVE_HOLD, MAKE_READ, NEW_LEASE)}
local swept = end_expired()
local hold = live_hold()
if not hold or hold.token ~= ${arg('token')} then return lost(swept) end
begin_writes()
if ${arg('mode')} == 'read' and hold.mode == 'write' then make_read(hold) end
return { 'renewed', ${attempt}, int(now), renew_and_save(${attempt}, hold, tonumber(${arg('leaseMs')})) }
`,
});
