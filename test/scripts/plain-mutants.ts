import { type Mutant } from './mutants.js';

/** Ways to break the plain paths of the scripts, and the packed form of a lock. */
export const PLAIN_MUTANTS: readonly Mutant[] = [
  {
    name: 'an acquire grants an attempt that was released',
    find: "\n      and not string.find(released, ';' .. sub(attempt, -8) .. ';', 1, true)\n",
    replace: '\n',
  },
  {
    name: 'an acquire takes a lock that is held',
    find: '(#packed == 17 or sub(packed, 18, 30) <= now_ms)',
    replace: 'true',
  },
  {
    name: 'an acquire takes a lock for which others wait',
    find: 'local is_free = not released',
    replace: 'local is_free = true',
  },
  {
    name: 'its token follows a clock that steps back',
    find: 'sub(packed, 2, 17) <= latest_free',
    replace: 'true',
  },
  { name: 'an acquire from the future is granted', find: '<sentMicros> <= time and', replace: '' },
  { name: 'an acquire that is too old is granted', find: 'and time <= <untilMicros>', replace: '' },
  {
    name: 'a full server refuses to grant a lock whose lease is over',
    find: "local written = packed and redis.pcall('HSET'",
    replace: "local written = packed and redis.call('HSET'",
  },
  { name: 'a key lives forever', find: "redis.call('PEXPIRE', KEYS[1], <ttlMs>)\n      end", replace: 'end' },
  {
    name: 'no grant but the first sets the time to live',
    find: 'or sub(packed, 2, <windowDigits> + 1) ~= sub(time, 1, <windowDigits>)',
    replace: '',
  },
  { name: 'the holder is not noted', find: "'s', value, 'by', <holder>)", replace: "'s', value)" },
  {
    name: 'a release ends the hold of another',
    find: "sub(packed, 41) == attempt and sub(packed, 1, 1) == '1' then\n    local entry",
    replace: '#packed > 17 then\n    local entry',
  },
  {
    name: 'a release ends a hold whose lease is over',
    find: 'now_ms < sub(packed, 18, 30) and',
    replace: '',
  },
  { name: 'a release is not remembered', find: 'released = released .. entry\n', replace: '' },
  { name: 'all releases are remembered', find: 'while #released > 64 do', replace: 'while false do' },
  {
    name: 'a release is remembered twice',
    find: "\n      and not string.find(released, ';' .. entry, 1, true)",
    replace: '',
  },
  {
    name: 'the key lives as long as a lease that was given back',
    find: 'and sub(packed, 31, 40) <= <keepMs>',
    replace: '',
  },
  {
    name: 'a full server refuses a release',
    find: "local written = redis.pcall('HSET', KEYS[1], 's', sub(packed, 1, 17)",
    replace: "local written = redis.call('HSET', KEYS[1], 's', sub(packed, 1, 17)",
  },
  { name: 'a renewal ignores the token', find: 'sub(packed, 2, 17) == <token> and', replace: '' },
  { name: 'a renewal brings back a lease that is over', find: 'now_ms < before and', replace: '' },
  { name: 'a renewal shortens a lease', find: 'and before <= new_deadline', replace: '' },
  {
    name: 'a full server refuses a renewal',
    find: "redis.call('PEXPIRE', KEYS[1], <ttlMs>)\n      redis.call('HSET'",
    replace: "redis.call('HSET'",
  },
  { name: 'a lock with waiters is packed', find: 'if first <= tail or jobs', replace: 'if jobs' },
  { name: 'a lock with jobs is packed', find: "or jobs ~= '' or", replace: 'or' },
  { name: 'a lock with revoked attempts is packed', find: "or revoked ~= ';' or", replace: 'or' },
  { name: 'a lock with late attempts is packed', find: "or late ~= ';' or", replace: 'or' },
  { name: 'a hold of a named owner is packed', find: "hold.owner ~= '-' or", replace: '' },
  {
    name: 'a hold with an older token is packed',
    find: 'hold.token ~= int(token) or',
    replace: "hold.token == '0' or",
  },
  { name: 'the time of a grant is lost', find: ' or hold.since ~= math.floor(token / 1000)', replace: '' },
  {
    name: 'the fields of a hold stay beside the packed ones',
    find: "redis.call('HDEL', KEYS[1], 'hold:' .. writer, 'id:' .. writer)",
    replace: '',
  },
  { name: 'packed fields stay beside the others', find: "redis.call('HDEL', KEYS[1], 's', 'by')", replace: '' },
  {
    name: 'the hold is lost when a packed lock gets other fields',
    find: '    write_hold(hold.attempt, hold)\n',
    replace: '',
  },
  { name: 'a packed hold is not found', find: 'if is_packed(attempt) then return packed_hold end', replace: '' },
  {
    name: 'a packed hold is not looked at',
    find: 'if packed_hold then return visit(packed_hold.attempt, packed_hold) end',
    replace: '',
  },
  {
    name: 'late attempts are remembered for as long as the key',
    find: 'forget_late()\n  local value',
    replace: 'local value',
  },
  {
    name: 'late attempts are forgotten too soon',
    find: 'micros - newest >= late_micros',
    replace: 'micros - newest >= 0',
  },
];

/** Ways to break the script for several operations. */
export const BATCH_MUTANTS: readonly Mutant[] = [
  {
    name: 'an operation that failed ends those behind it',
    find: '  replies[i] = reply\n',
    replace: '  replies[i] = reply if not is_done then break end\n',
  },
  {
    name: 'an operation has the terms of the first one',
    find: 'local i, own = #replies + 1, terms[number]',
    replace: "local i, own = #replies + 1, terms['1']",
  },
  { name: 'an operation is done to the first lock', find: '= KEYS[i], attempt', replace: '= KEYS[1], attempt' },
  {
    name: 'a renewal has no token',
    find: 'run, values[2] = renew, token',
    replace: 'run = renew',
  },
  { name: 'an acquire has no times', find: 'run, values[2], values[3] = acquire', replace: 'run = acquire' },
  {
    name: 'an acquire may arrive late',
    find: 'values[3] = acquire, sent_micros, until_micros',
    replace: "values[3] = acquire, sent_micros, '9999999999999999'",
  },
  { name: 'a renewal is a release', find: 'values[2] = renew,', replace: 'values[2] = release,' },
];
