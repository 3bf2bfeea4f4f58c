import { Redis } from 'ioredis';
import { type StartedRedis, startRedisServer } from '../../scripts/redis.mjs';
import { unpacked } from '../support/redis/records.js';
import { inconsistencies } from './hash-checks.js';
import { type AnyScripts, EVERY_TOKEN, NO_CLAIM, PLAIN_WRITER, type Operands, runScript } from './run-script.js';

export const KEY = 'lock:order%3A42';
export const LEASE_MS = 30_000;
export const START_MS = 1_800_000_000_000;
const KEEP_MS = 600_000;

export const attempt = (client: string, n: number): string => `${client}-Zx81kQp0a.${String(n).padStart(8, '0')}`;

/** One promise of a script, with a lock that nobody has used. */
type Check = (lock: DrivenLock) => Promise<void>;
export type Checks = Readonly<Record<string, Check>>;

/** Re-entry takes this token: no write hold may be ahead of it, but it may be ahead of them. */
function fenceFlaws(hash: Readonly<Record<string, string>>): string[] {
  const holds = Object.entries(hash).filter(([field]) => field.startsWith('hold:'));
  const tokens = holds
    .map(([, record]) => record.split(' '))
    .map(([, , mode, token]) => (mode === 'write' ? +token! : 0));
  const latest = Math.max(0, ...tokens);
  return latest > Number(hash['fence'] ?? 0) ? [`fence ${hash['fence']} is behind ${latest}`] : [];
}

/** The same of the reads of each named owner. */
function ownedFlaws(hash: Readonly<Record<string, string>>): string[] {
  const reads = Object.entries(hash)
    .filter(([field]) => field.startsWith('hold:'))
    .map(([, record]) => record.split(' '))
    .filter(([, , mode, token, , owner]) => mode === 'read' && token !== '0' && owner !== '-');
  return reads
    .filter(([, , , token, , owner]) => Number(token) > Number(hash[`owned:${owner}`]?.split(' ')[1] ?? 0))
    .map(([, , , token, , owner]) => `owned:${owner} ${hash[`owned:${owner}`]} is behind ${token}`);
}

/** One lock on a real Redis, and a clock that the check owns. After each command its hash has to be well-formed. */
export class DrivenLock {
  now = START_MS;

  constructor(
    readonly redis: Redis,
    private readonly scripts: AnyScripts,
  ) {}

  async run(name: keyof AnyScripts, values: Operands): Promise<string[]> {
    // Nobody listens: PUBLISH is not to be counted.
    const common = { lock: KEY, keepMs: KEEP_MS, channelPrefix: 'wake:', countReceivers: 0 };
    const reply = await runScript(this.redis, this.scripts[name], {
      ...common,
      nowMicros: `${this.now}000`,
      ...values,
    });
    const hash = await this.hash();
    expect([...inconsistencies(await this.redis.hgetall(KEY)), ...fenceFlaws(hash), ...ownedFlaws(hash)]).toEqual([]);
    return reply;
  }

  acquire(who: string, operands: Operands = {}): Promise<string[]> {
    const plain = { ...PLAIN_WRITER, leaseMs: LEASE_MS, ...NO_CLAIM };
    return this.run('acquire', { attempt: who, ...plain, holder: 'host-1:4711 Orders.pay', ...operands });
  }

  /** Acquires, has to be granted, and gives the token. */
  async take(who: string, operands: Operands = {}): Promise<string> {
    const [outcome, , , token] = await this.acquire(who, operands);
    expect(outcome).toBe('granted');
    return token!;
  }

  writeBack(who: string, token: string, newToken: string): Promise<string[]> {
    return this.run('writeBack', { attempt: who, token, newToken });
  }

  renew(who: string, token: string): Promise<string[]> {
    return this.run('renew', { attempt: who, token, leaseMs: LEASE_MS, mode: 'write' });
  }

  downgrade(who: string, token: string): Promise<string[]> {
    return this.run('downgrade', { attempt: who, token });
  }

  /** Gives the outcome. */
  async release(who: string, operands: Operands = {}): Promise<string> {
    return (await this.run('release', { attempt: who, holdAtLeastMs: 0, job: '-', runOutcome: '-', ...operands }))[0]!;
  }

  forceRelease(): Promise<string[]> {
    return this.run('forceRelease', { attempt: 'operator.00000100', seenToken: EVERY_TOKEN });
  }

  /** Its hash; of a packed lock, the fields that it would have otherwise. */
  async hash(): Promise<Record<string, string>> {
    return unpacked(await this.redis.hgetall(KEY));
  }

  /** The lock's last token. */
  async lastToken(): Promise<string | null> {
    return (await this.hash())['token'] ?? null;
  }

  async holdOf(who: string) {
    const record = (await this.hash())[`hold:${who}`];
    if (record === undefined) return null;
    const [deadline, lease, mode, token, since, owner] = record.split(' ');
    return { deadline: Number(deadline), lease: Number(lease), mode, token, since: Number(since), owner };
  }

  /** That a command changes nothing at all. */
  async expectUntouched(command: () => Promise<unknown>): Promise<void> {
    const before = await this.hash();
    await command();
    expect(await this.hash()).toEqual(before);
  }

  async fillServer(): Promise<void> {
    await this.redis.config('SET', 'maxmemory', '1');
  }
}

/** A server of its own, since the checks fill it. */
export interface Bench {
  /** Runs a check on these scripts; rejects with what it expected in vain. */
  run(scripts: AnyScripts, check: Check): Promise<void>;
  close(): Promise<void>;
}

export async function openBench(): Promise<Bench> {
  const server: StartedRedis = await startRedisServer();
  const redis = new Redis(server.url);
  return {
    async run(scripts, check) {
      await redis.config('SET', 'maxmemory', '0');
      await redis.flushall();
      await check(new DrivenLock(redis, scripts));
    },
    async close() {
      redis.disconnect();
      await server.stop();
    },
  };
}
