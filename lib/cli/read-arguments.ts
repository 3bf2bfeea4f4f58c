import { parseArgs } from 'node:util';
import { printable } from '../core/printable.js';
import { COMMANDS, type CommandName, UsageError } from './usage.js';

/** The options that may also come from the environment, as `REDIS_LOCK_<NAME>`. */
const OF_BOTH = {
  url: 'string',
  cluster: 'string',
  sentinel: 'string',
  'sentinel-name': 'string',
  quorum: 'string',
  username: 'string',
  'password-file': 'string',
  tls: 'boolean',
  'tls-ca': 'string',
  'tls-cert': 'string',
  'tls-key': 'string',
  'tls-servername': 'string',
  'sentinel-tls': 'boolean',
  prefix: 'string',
  'hash-tag': 'string',
  timeout: 'string',
  json: 'boolean',
  'read-only': 'boolean',
} as const;

const OF_COMMAND_LINE = {
  limit: 'string',
  interval: 'string',
  by: 'string',
  yes: 'boolean',
  help: 'boolean',
  version: 'boolean',
} as const;

/** Each is refused with advice of its own: its value may be a password. */
const SECRET = ['password', 'pass', 'auth', 'sentinel-password'];

/** Which of these says where the locks are; at most one is given. */
export const PLACES = ['url', 'cluster', 'sentinel', 'quorum'] as const;

type Kinds = typeof OF_BOTH & typeof OF_COMMAND_LINE;

/** The options as they were given, whether on the command line or in the environment. */
export type Given = {
  readonly [name in keyof Kinds]?: (Kinds[name] extends 'string' ? string : boolean) | undefined;
};

/** A command with its words. `given` also says which of the options came from the command line. */
export interface Call {
  readonly command: CommandName;
  /** The key or the prefix; undefined where it was left out. */
  readonly word: string | undefined;
  readonly given: Given;
  readonly fromCommandLine: ReadonlySet<string>;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the command line and the environment.
 * @throws UsageError
 */
export function readArguments(args: readonly string[], env: Environment): Call | 'help' | 'version' {
  const { values, positionals } = parse(args);
  const given = values as Given;
  const [name, ...words] = positionals;
  if (given.help || name === 'help') return 'help';
  if (given.version) return 'version';
  const command = commandOf(name);
  const { args: takes, options } = COMMANDS[command];
  checkWords(command, takes, words);
  const fromCommandLine = new Set(Object.keys(values));
  const own = Object.keys(OF_COMMAND_LINE);
  const foreign = [...fromCommandLine].find(
    (one) => own.includes(one) && !(options as readonly string[]).includes(one),
  );
  if (foreign !== undefined) throw new UsageError(`\`${command}\` has no option --${foreign}.`);
  return { command, word: words[0], given: { ...fromEnvironment(env, given), ...given }, fromCommandLine };
}

function parse(args: readonly string[]) {
  const secret = args.find((arg) => SECRET.includes(/^--([^=]+)/.exec(arg)?.[1] ?? ''));
  if (secret !== undefined) {
    throw new UsageError(
      'A password on the command line can be read by other users of this machine. Set REDIS_LOCK_PASSWORD, or give ' +
        '--password-file. If you have just typed one, change it.',
    );
  }
  const kinds: Readonly<Record<string, 'string' | 'boolean'>> = { ...OF_BOTH, ...OF_COMMAND_LINE };
  const options = Object.fromEntries(Object.entries(kinds).map(([name, type]) => [name, { type }]));
  try {
    return parseArgs({
      args: [...args],
      options: { ...options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    });
  } catch (error) {
    // The first sentence names the option; the rest of the text may contain its value.
    const [sentence = ''] = (error as Error).message.split(/\. |\n/);
    throw new UsageError(`${printable(sentence.replace(/\.$/, ''))}. See --help.`);
  }
}

function commandOf(name: string | undefined): CommandName {
  const all = Object.keys(COMMANDS);
  if (name === undefined) throw new UsageError(`Expected a command: ${all.join(', ')}. See --help.`);
  if (Object.hasOwn(COMMANDS, name)) return name as CommandName;
  // It may be a URL with a password.
  const shown = /^[\w-]{1,30}$/.test(name) ? ` \`${name}\`` : '';
  throw new UsageError(`Unknown command${shown}: expected one of ${all.join(', ')}. See --help.`);
}

function checkWords(command: CommandName, takes: string, words: readonly string[]): void {
  const most = takes === '' ? 0 : 1;
  if (words.length > most) {
    const text = most === 0 ? 'no words behind it' : `one word behind it: ${takes}`;
    throw new UsageError(`\`${command}\` takes ${text}. Put quotes around a key with spaces.`);
  }
  if (takes === 'KEY' && words.length === 0)
    throw new UsageError(`\`${command}\` needs the key of a lock. See --help.`);
}

export const variableOf = (option: string): string => `REDIS_LOCK_${option.toUpperCase().replaceAll('-', '_')}`;

/** A place on the command line replaces the one of the environment, which may be another kind of place. */
function fromEnvironment(env: Environment, given: Given): Given {
  const isPlaced = PLACES.some((place) => given[place] !== undefined);
  const read: Record<string, string | boolean> = {};
  for (const [option, type] of Object.entries(OF_BOTH)) {
    const value = env[variableOf(option)];
    if (value === undefined || value === '') continue;
    if (isPlaced && (PLACES as readonly string[]).includes(option)) continue;
    read[option] = type === 'string' ? value : readBoolean(value, option);
  }
  return read;
}

export const isOn = (value = ''): boolean => /^(1|true|yes|on)$/i.test(value);

function readBoolean(value: string, option: string): boolean {
  if (isOn(value)) return true;
  if (/^(0|false|no|off)$/i.test(value)) return false;
  throw new UsageError(`Expected ${variableOf(option)} to be 1 or 0.`);
}
