import { key, lua } from '../lua.js';
import { scriptPart } from './script-part.js';
import { VERSION } from './version.js';

const lock = key('lock');

/**
 * One lock is one hash, so that a script declares one key (a cluster refuses two while a slot migrates). It is packed while
 * it is free, or held once for writing without an owner, and nothing else is known of it (see `save()`). Then its fields are:
 *
 * | field | value |
 * | --- | --- |
 * | `s` | the version of the data, 1 character; the last fencing token, 16; while it is held: deadline, 13, lease, 10, attempt, up to 24 |
 * | `released` | as below |
 * | `by` | who holds or held it last (host, pid, method), for people; opaque here |
 *
 * Otherwise they are:
 *
 * | field | value |
 * | --- | --- |
 * | `v` | the version of the data |
 * | `token` | the last fencing token that was granted (see `next_token()`); outlives the holds |
 * | `released` | ring of fingerprints of the attempts released last: `;abcdefgh;ijklmnop;` |
 * | `revoked` | such a ring of the attempts from which an operator took the lock |
 * | `late` | the attempts given back while a command of theirs had no answer, and when: `;abcdefgh 1700000000000000;` |
 * | `floor` | when (microseconds) the last entry that a full `late` dropped was made; unknown attempts sent by then are refused |
 * | `hold:<attempt>` | one hold: `deadline lease mode token since owner` (`token` 0: parked, see release) |
 * | `id:<attempt>` | the holder or waiter (see holder-text.ts), for people; opaque here, and longer than 64 bytes if it has a note |
 * | `writes`, `reads` | how many holds of each mode there are |
 * | `extra` | how many permits the read holds take beyond one each |
 * | `limit` | how many permits the reader counted that was granted last |
 * | `permits` | how many permits there are, if an operator has set that (see set-permits); else each request says so |
 * | `parked` | how many of the write holds are parked |
 * | `owner`, `writer`, `fence` | owner, latest attempt and token of the write holds |
 * | `due`, `seen`, `latest` | bounds of all leases: at most the first end; at least the last start; at least the last end |
 * | `owned:<owner>` | `count token` of the read holds of a named owner |
 * | `first`, `tail` | the first and the last sequence number in the queue of waiters |
 * | `head` | the sequence number that is served next; waiters before it were passed over (see hand-over) |
 * | `cursor` | the sequence number at which `sweep_queue` goes on |
 * | `queue:<n>` | one waiter: `deadline waiter-lease mode fair permits lease owner attempt`; `fair` is 0, 1, or 2 |
 * | `place:<attempt>` | its sequence number, and since when it waits: `n since` |
 * | `jobs` | the jobs that have fires here, percent-encoded, each with the time until which it is kept: `job ms job ms` |
 * | `fires:<job>` | the latest fires of that job that were granted, in ms: `;1000;2000;` (see claim) |
 * | `run:<job>` | its last run: `fire attempt started ended outcome` (`0 -` while they are unknown) |
 * | `run:by:<job>` | the instance that runs or ran it: `host:pid` |
 *
 * The mode of a reader that takes several permits is followed by their number: `read3`.
 *
 * A waiter with `fair` 0 races for the lock when it is woken. One with 1 is granted the lock in its turn. One with 2 is told in
 * its turn to send its request again: it needs several keys, or a fire.
 *
 * Times are milliseconds of the server's clock; tokens are its microseconds. An owner of `-` means the attempt itself.
 * Values stay within 64 bytes, so that Redis keeps a small hash compact. Those of jobs and `late` may be longer, but are few.
 * Each change of what is above raises the version. A script refuses the data of a newer one before it writes anything.
 *
 * This part loads the fields that every script needs, each into the variable of its name, and writes nothing. It reads
 * `time`, which the clock defines. It also defines `remember`, until when jobs need the key, `freed`: whether a hold or a
 * place has ended since the queue was served, and `packed_hold`: the hold of a packed lock, which has no fields of its own.
 */
export const STATE = scriptPart(
  {
    name: 'state',
    needs: [VERSION],
    defines:
      'micros now loaded token released writes reads parked owner writer fence due seen head tail revoked latest first cursor ' +
      'floor jobs remember late late_micros packed by packed_hold freed extra limit set_permits',
  },
  lua`
local micros = tonumber(time)
local now = math.floor(micros / 1000)

local function int(value)
  return string.format('%.0f', value)
end

local loaded = redis.call('HMGET', ${lock}, 'token', 'released', 'writes', 'reads', 'parked', 'owner', 'writer', 'fence',
  'due', 'seen', 'head', 'tail', 'revoked', 'latest', 'first', 'cursor', 'floor', 'jobs', 'late', 's', 'by', 'v', 'extra',
  'limit', 'permits')
refuse_newer(loaded[20], loaded[22])
local token, released = tonumber(loaded[1] or 0), loaded[2] or ';'
local writes, reads, parked = tonumber(loaded[3] or 0), tonumber(loaded[4] or 0), tonumber(loaded[5] or 0)
local owner, writer, fence = loaded[6] or '', loaded[7] or '', loaded[8] or '0'
local due, seen = tonumber(loaded[9] or 0), tonumber(loaded[10] or 0)
local head, tail = tonumber(loaded[11] or 1), tonumber(loaded[12] or 0)
local revoked = loaded[13] or ';'
local latest, first, cursor = tonumber(loaded[14] or 0), tonumber(loaded[15] or head), tonumber(loaded[16] or head)
local floor, jobs, remember, late = tonumber(loaded[17] or 0), loaded[18] or '', 0, loaded[19] or ';'
-- The clock stepped back. Without this, every new attempt would be refused until the clock reaches the floor again.
if floor > micros then floor = 0 end
for time in string.gmatch(jobs, '%S+ (%d+)') do remember = math.max(remember, tonumber(time)) end
-- By then, a command of a late attempt is too old to be carried out (ADR 11).
local late_micros = 20000000
local extra, limit, set_permits = tonumber(loaded[23] or 0), tonumber(loaded[24] or 0), tonumber(loaded[25])
local freed = false

local packed, by, packed_hold = loaded[20], loaded[21] or '', nil
if packed then
  local packed_token = string.sub(packed, 2, 17)
  token = tonumber(packed_token)
  if #packed > 17 then
    packed_hold = { attempt = string.sub(packed, 41), deadline = tonumber(string.sub(packed, 18, 30)),
      lease = tonumber(string.sub(packed, 31, 40)), mode = 'write', take = 1, token = packed_token,
      since = math.floor(token / 1000), owner = '-' }
    writes, owner, writer, fence = 1, packed_hold.attempt, packed_hold.attempt, packed_token
    due, latest, seen = packed_hold.deadline, packed_hold.deadline, packed_hold.deadline - packed_hold.lease
  end
end
`,
);
