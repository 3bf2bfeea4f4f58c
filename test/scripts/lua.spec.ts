import { Redis } from 'ioredis';
import { type StartedRedis, startRedisServer } from '../../scripts/redis.mjs';
import { createLockScripts } from '../../lib/redis/scripts/lock-scripts.js';
import { Lua, sha1Of } from '../support/lua/lua.js';

describe('every lock script', () => {
  const scripts = Object.entries(createLockScripts());

  it.each(scripts)('%s reads the time once, if it needs it', (name, text) => {
    expect(text.match(/'TIME'/g) ?? []).toHaveLength(name === 'readHistory' ? 0 : 1);
  });

  // A cluster refuses others.
  it.each(scripts)('%s touches no key but those that it declares', (_name, text) => {
    const commands = [...text.matchAll(/\bcall(?:\)?\(|, )'(\w+)'(?:, ([^,)]+))?/g)].map(([, name, key]) => ({
      name,
      key,
    }));
    const keyed = commands.filter(({ name }) => !['TIME', 'PUBLISH', 'PUBSUB'].includes(name!));
    expect(keyed.length).toBeGreaterThan(0);
    for (const { key } of keyed) expect(['key', 'lock.key', 'one.key', 'KEYS[1]']).toContain(key);
    // For a lock, it is also one of those of the script.
    for (const [, key] of text.matchAll(/Lock:load\(([^,)]+)/g)) expect(key).toMatch(/^KEYS\[\w+\]$/);
  });
});

describe('`struct` of the simulated servers packs and unpacks as that of Redis', () => {
  let server: StartedRedis;
  let redis: Redis;
  beforeAll(async () => {
    server = await startRedisServer();
    redis = new Redis(server.url);
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });

  it.each([
    ['numbers of each width', '>BI1I2I3I4I5I6I7', '255, 200, 40000, 2^24 - 1, 2^32 - 1, 2^40 - 1, 2^48 - 1, 2^53 - 1'],
    ['small numbers', '<I2>I3I7', '1, 2, 0'],
    ['fractions', '>I3I6', '7.9, 1800000000000.5'],
    ['numbers that are too great for their width', '>I1I2', '256 + 3, 65536 * 5 + 4'],
    ['texts as numbers', '>I5', "'30000'"],
    ['a text of one character', '>c1I2', "'write', 3"],
    ['texts behind their lengths', '>I2c0I2c0I1', "3, 'abc', 0, '', 9"],
    ['a text that is too short', '>c3', "'ab'"],
    ['what is packed by another length', '>I2c0', "5, 'abc'"],
    ['a text without a length', '>c0', "'abc'"],
    ['an unknown format', '>Q', '1'],
  ])('%s', async (_what, format, values) => {
    const text = `local function hex(text) return (string.gsub(text, '.', function(one) return string.format('%02x', string.byte(one)) end)) end
local is_packed, packed = pcall(struct.pack, '${format}', ${values})
if not is_packed then return { 'error' } end
local parts = { pcall(struct.unpack, '${format}', 'xy' .. packed .. '', 3) }
if not parts[1] then return { hex(packed), 'error' } end
for i = 1, #parts do parts[i] = type(parts[i]) == 'number' and string.format('%.0f', parts[i]) or tostring(parts[i]) end
return { hex(packed), unpack(parts) }`;
    const lua = await Lua.open();
    lua.load(sha1Of(text), text);
    const around = { micros: 0, refusal: '', listening: '', valueOf: () => undefined };
    expect(lua.run(sha1Of(text), [], [], around).reply).toEqual(await redis.eval(text, 0));
  });
});
