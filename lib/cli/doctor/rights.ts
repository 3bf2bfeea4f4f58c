import { isPassing, readableText } from '../../redis/connection/error-advice.js';
import { type Result, ok, problem, refusalOf, skipped, warn } from './finding.js';
import { type Server } from './servers.js';

/** A right, and what happens without it. */
interface Right {
  readonly name: string;
  readonly without: string;
  /** Locks work without it, though not as well. */
  readonly isMinor?: true;
  readonly writes?: true;
  /** What a script calls to find out; it leaves nothing behind. */
  readonly call: string;
}

const NO_LOCK = 'every lock is refused';

/** In this order, which leaves nothing behind. The channel is one that the user must be allowed to use. */
const IN_SCRIPTS: readonly Right[] = [
  { name: '+time', without: NO_LOCK, call: "'TIME'" },
  { name: '+hget', without: NO_LOCK, call: "'HGET', KEYS[1], 'doctor'" },
  { name: '+hmget', without: NO_LOCK, call: "'HMGET', KEYS[1], 'doctor'" },
  { name: '+hgetall', without: NO_LOCK, call: "'HGETALL', KEYS[1]" },
  {
    name: '+pubsub|numsub',
    without: 'a release does not hand a lock over, and waiters get it later',
    isMinor: true,
    call: "'PUBSUB', 'NUMSUB', ARGV[1]",
  },
  { name: '+hset', without: NO_LOCK, writes: true, call: "'HSET', KEYS[1], 'doctor', '1'" },
  { name: '+pexpire', without: NO_LOCK, writes: true, call: "'PEXPIRE', KEYS[1], '60000'" },
  {
    name: '+hdel',
    without: 'a lock that was waited for is never free again',
    writes: true,
    call: "'HDEL', KEYS[1], 'doctor'",
  },
  {
    name: '+publish and the channels',
    without: 'waiters are not woken, and poll',
    isMinor: true,
    writes: true,
    call: "'PUBLISH', ARGV[1], 'doctor'",
  },
];

const scriptOf = (rights: readonly Right[]): string => `local refused = {}
local function try(number, ...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then refused[#refused + 1] = number .. ' ' .. answer.err end
end
${rights.map(({ call }, i) => `try('${i}', ${call})`).join('\n')}
return refused`;

const ADVICE = 'Give the user the rights of "A user for locks only" in docs/security.md.';

/** Which of the rights that the locks need the user does not have. */
export async function checkRights(server: Server, channel: string, readOnly: boolean): Promise<Result[]> {
  const rights = IN_SCRIPTS.filter(({ writes }) => !readOnly || !writes);
  const refused: Right[] = [];
  const passing: string[] = [];
  const tries: readonly (readonly [Right, () => Promise<unknown>])[] = [
    [
      { name: '+evalsha', without: NO_LOCK, call: '' },
      () => server.ask((one) => one.evaluateSha(NO_SHA, [1, server.storageKey])),
    ],
    [
      { name: '+eval', without: 'a server that was restarted refuses every lock', call: '' },
      async () => {
        const reply = await server.ask((one) => one.evaluate(scriptOf(rights), [1, server.storageKey, channel]));
        for (const [, number, text = ''] of (reply as string[]).map((line) => /^(\d+) ([^]*)$/.exec(line)!)) {
          // Without memory or replicas, the server refuses what the user may do.
          if (isPassing(text)) passing.push(readableText(new Error(text)));
          else refused.push(rights[Number(number)]!);
        }
      },
    ],
    [
      { name: '+scan', without: '`list()` and `ls` list nothing', isMinor: true, call: '' },
      () => server.ask((one) => one.scan('0', server.storageKey, 1)),
    ],
  ];
  for (const [right, attempt] of tries) {
    await attempt().catch((error: unknown) => {
      const text = refusalOf(error);
      if (text === null) throw error;
      if (!text.includes('NOSCRIPT')) refused.push(right);
    });
  }
  if (!(await server.place.listens())) {
    refused.push({
      name: '+subscribe and the channels',
      without: 'waiters are not woken, and poll',
      isMinor: true,
      call: '',
    });
  }
  const unknown = passing.slice(0, 1).map((text) => skipped(`The rights to write could not be checked: ${text}.`));
  if (refused.length + unknown.length === 0)
    return [ok(`The user may do all that locks need${readOnly ? ', as far as reading goes' : ''}.`)];
  const lacking = refused.map(({ name, without, isMinor }) => {
    const text = `The user lacks a right, or the server refused a command: ${name}. Without it, ${without}.`;
    return isMinor ? warn(text, ADVICE) : problem(text, ADVICE);
  });
  return [...lacking, ...unknown];
}

/** No script has it. */
const NO_SHA = 'f'.repeat(40);
