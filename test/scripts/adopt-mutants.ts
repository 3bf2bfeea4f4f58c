import { type Mutant } from './mutants.js';

/** Ways to break the adoption of a hold. */
export const ADOPT_MUTANTS: readonly Mutant[] = [
  ['an adoption that is sent again is lost', 'local hold = hold_of(<attempt>)\n', 'local hold = nil\n'],
  ['a caller that has given up gets the hold', 'not hold and not given_back and hold_of', 'not hold and hold_of'],
  ['the token is not compared', "~= '0' and hold.token == <token> then", "~= '0' then"],
  ['a parked hold can be adopted', "hold.token ~= '0' and hold.token == <token>", 'hold.token == <token>'],
  ['the first attempt keeps its hold', "redis.call('HDEL', KEYS[1], 'hold:' .. <from>, 'id:' .. <from>)", ''],
  ['the first attempt is not remembered as released', 'released = with(released, <from>)\n', ''],
  ['commands of the first attempt that may still come are forgotten', "if <unanswered> == '1' then remember_late(<from>) end", ''],
  ['a packed hold keeps the name of its holder', "redis.call('HSET', KEYS[1], 'by', by)", ''],
  ['the new holder is not noted', "redis.call('HSET', KEYS[1], 'id:' .. <attempt>, <holder>)\n  end\n  if writer", 'end\n  if writer'],
  ['the writer stays the first attempt', 'if writer == <from> then writer = <attempt> end', ''],
  ['the owner stays the first attempt', "if hold.mode == 'write' and hold.owner == '-' then owner = <attempt> end", ''],
  ['a named owner becomes the attempt', "if hold.mode == 'write' and hold.owner == '-' then owner", "if hold.mode == 'write' then owner"],
  ['a loss does not say that the first attempt was revoked', 'is_in(revoked, <from>) or is_in(revoked, <attempt>)',
    'is_in(revoked, <attempt>)'],
  ['a loss saves nothing of what has ended', 'hand_over_and_save(swept, false)\n  local was_revoked', 'local was_revoked'],
  ['a full server refuses adoptions', 'begin_writes()\nif adopted then', 'if adopted then'],
];
