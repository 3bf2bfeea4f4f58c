import * as fc from 'fast-check';
import { Redis } from 'ioredis';
import { startRedisServer } from '../../scripts/redis.mjs';
import { type Arena, LockGame } from './game.js';
import { type Lua } from '../support/lua/lua.js';
import { type LockScripts } from '../../lib/redis/scripts/lock-scripts.js';
import { KNOWN_GAMES, LONG_GAMES } from './known-games.js';
import { CLIENTS, DEAD_CLIENT, gameArbitrary } from './random-steps.js';

/** Where games are played one after the other, by these scripts or by others. */
export interface Grounds {
  arenaOf(scripts: LockScripts, lua?: Lua): Promise<Arena>;
  close(): Promise<void>;
}

/** A separate server, since games fill it, with a connection that listens for all clients but the dead one. */
export async function openGrounds(name: string): Promise<Grounds> {
  const server = await startRedisServer();
  const redis = new Redis(server.url);
  const listener = new Redis(server.url);
  const prefix = `${name}:`;
  const channelPrefix = `${prefix}wake:`;
  const marks = `${channelPrefix}marks`;
  const heard: string[] = [];
  const waiting = new Map<string, () => void>();
  let mark = 0;
  listener.on('message', (channel, message) => {
    if (channel === marks) waiting.get(message)?.();
    else heard.push(`${channel.slice(channelPrefix.length)} ${message}`);
  });
  const live = CLIENTS.filter((client) => client !== DEAD_CLIENT);
  await listener.subscribe(marks, ...live.map((client) => channelPrefix + client));
  // Our message is sent after the script: when it arrives, all messages of the script have arrived.
  const published = async (): Promise<string[]> => {
    const id = String((mark += 1));
    await new Promise<void>((resolve, reject) => {
      waiting.set(id, resolve);
      redis.publish(marks, id).catch(reject);
    });
    waiting.delete(id);
    return heard.splice(0);
  };
  const listen = async (client: string, on: boolean): Promise<void> => {
    if (on) await listener.subscribe(channelPrefix + client);
    else await listener.unsubscribe(channelPrefix + client);
  };
  return {
    async arenaOf(scripts, lua) {
      // Known beforehand, a script is one command: what is sent after it is executed after it.
      for (const text of Object.values(scripts)) await redis.script('LOAD', text);
      // A game that failed may have left messages.
      await published();
      return { redis, scripts, prefix, published, listen, lua };
    },
    async close() {
      redis.disconnect();
      listener.disconnect();
      await server.stop();
    },
  };
}

export interface PlayOptions {
  readonly seed: number;
  /** The number of random games, in addition to the known ones. */
  readonly runs: number;
  /** Makes a failure small before it is reported; a mutant need not be. */
  readonly shrink: boolean;
  /** Also those with very many waiters. */
  readonly long?: boolean;
}

/** Plays random games; resolves with the number of operations, rejects with the smallest failing game. */
export async function playGames(arena: Arena, { seed, runs, shrink, long = false }: PlayOptions): Promise<number> {
  const known = long ? [...KNOWN_GAMES, ...LONG_GAMES] : KNOWN_GAMES;
  let operations = 0;
  const property = fc.asyncProperty(gameArbitrary, async (game) => {
    const played = new LockGame(arena, game);
    await played.play();
    operations += played.operations;
  });
  await fc.assert(property, {
    seed,
    numRuns: known.length + runs,
    endOnFailure: !shrink,
    examples: known.map((game) => [game]),
  });
  return operations;
}
