import { type Mutant } from './mutants.js';

/** Ways to break the adoption of a hold. */
export const ADOPT_MUTANTS: readonly Mutant[] = [
  {
    name: 'an adoption that is sent again is lost',
    find: 'local hold = hold_of(<attempt>)\n',
    replace: 'local hold = nil\n',
  },
  {
    name: 'a caller that has given up gets the hold',
    find: 'not hold and not given_back and hold_of',
    replace: 'not hold and hold_of',
  },
  { name: 'the token is not compared', find: "~= '0' and hold.token == <token> then", replace: "~= '0' then" },
  {
    name: 'a parked hold can be adopted',
    find: "hold.token ~= '0' and hold.token == <token>",
    replace: 'hold.token == <token>',
  },
  {
    name: 'the first attempt keeps its hold',
    find: "redis.call('HDEL', KEYS[1], 'hold:' .. <from>, 'id:' .. <from>)",
    replace: '',
  },
  {
    name: 'the first attempt is not remembered as released',
    find: 'released = with(released, <from>)\n',
    replace: '',
  },
  {
    name: 'commands of the first attempt that may still come are forgotten',
    find: "if <unanswered> == '1' then remember_late(<from>) end",
    replace: '',
  },
  { name: 'a packed hold keeps the name of its holder', find: "redis.call('HSET', KEYS[1], 'by', by)", replace: '' },
  {
    name: 'the new holder is not noted',
    find: "redis.call('HSET', KEYS[1], 'id:' .. <attempt>, <holder>)\n  end\n  if writer",
    replace: 'end\n  if writer',
  },
  { name: 'the writer stays the first attempt', find: 'if writer == <from> then writer = <attempt> end', replace: '' },
  {
    name: 'the owner stays the first attempt',
    find: "if hold.mode == 'write' and hold.owner == '-' then owner = <attempt> end",
    replace: '',
  },
  {
    name: 'a named owner becomes the attempt',
    find: "if hold.mode == 'write' and hold.owner == '-' then owner",
    replace: "if hold.mode == 'write' then owner",
  },
  {
    name: 'a loss does not say that the first attempt was revoked',
    find: 'is_in(revoked, <from>) or is_in(revoked, <attempt>)',
    replace: 'is_in(revoked, <attempt>)',
  },
  {
    name: 'a loss saves nothing of what has ended',
    find: 'hand_over_and_save(swept, false)\n  local was_revoked',
    replace: 'local was_revoked',
  },
  {
    name: 'a full server refuses adoptions',
    find: 'begin_writes()\nif adopted then',
    replace: 'if adopted then',
  },
];
