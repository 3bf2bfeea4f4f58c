import { systemRandomness } from '../../../../lib/core/randomness.js';
import { type LeadsToMaster, type Operands, SingleClient } from '../../../../lib/redis/client/redis-client.js';
import { type RedisNatMap } from '../../../../lib/redis/client/redis-connection.js';
import { planBySentinels } from '../../../../lib/redis/client/sentinels.js';
import { type ServerAddress } from '../../../../lib/redis/client/server-address.js';
import { SENTINEL_COMMAND_TIMEOUT_MS } from '../../../../lib/redis/timing.js';
import { FakeClock, settled } from '../../../support/core/fake-clock.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { type FakeSession, planOfFake } from '../../../support/redis/fake-session.js';

const [OLD, NEW, OTHER] = ['10.0.0.1', '10.0.0.2', '10.0.0.3'] as const;
const PORT = 6379;

/** What each sentinel answers: the host of a master, nothing at all (null), or that it is down (an error). */
type Answer = string | null | Error;

interface Options {
  readonly natMap?: RedisNatMap;
  readonly hasOwnRoute?: boolean;
  readonly replicas?: readonly string[];
}

/** A connection whose master some sentinels name. */
function start(answersAtFirst: readonly Answer[], { natMap, hasOwnRoute = false, replicas = [] }: Options = {}) {
  const answers = [...answersAtFirst];
  const clock = new FakeClock();
  const parts = { clock, random: systemRandomness, reporter: new FakeReporter() };
  const links: FakeSession[][] = answers.map(() => []);
  const sentinel = (at: ServerAddress) => {
    const i = Number(at.host.split('.')[3]);
    const answer = answers[i]!;
    const reply = ([, subcommand]: Operands): unknown => {
      if (answer instanceof Error) return answer;
      if (subcommand === 'SENTINELS') return [];
      return answer === null ? new Promise(() => undefined) : [answer, String(PORT)];
    };
    return planOfFake(at, reply, links[i]);
  };
  const master = (at: ServerAddress) =>
    planOfFake(at, ([command]) => (command === 'info' ? `role:${replicas.includes(at.host) ? 'slave' : 'master'}` : 1));
  const group = {
    name: 'mymaster',
    sentinels: answers.map((_, i) => ({ host: `10.1.0.${i}`, port: 26_379 })),
    isOpenToOthers: false,
    answerMs: SENTINEL_COMMAND_TIMEOUT_MS,
    natMap,
    hasOwnRoute,
    sentinel,
    master,
  };
  const connection = new SingleClient(planBySentinels(group, parts), parts);
  const errors: string[] = [];
  connection.on('error', ({ message }) => errors.push(message));
  const announce = (by: number, host: string): void => {
    answers[by] = host;
    const switched = `mymaster ${OLD} ${PORT} ${host} ${PORT}`;
    for (const { listener } of links[by]!) listener.onMessage('+switch-master', switched);
  };
  /** Leaves a server that is not the master, as the connection of a store does. */
  const follow = () => {
    const told: boolean[] = [];
    const watch = connection.watchMaster((leadsToMaster: LeadsToMaster) => {
      const stays = leadsToMaster(connection);
      told.push(stays);
      if (!stays) connection.reconnect();
    })!;
    return { watch, told };
  };
  return { clock, connection, errors, answers, announce, follow };
}

const DOWN = new Error('connect ECONNREFUSED');

describe('the master of some sentinels', () => {
  it.each<[string, Answer[], string]>([
    ['all name', [NEW, NEW, NEW], NEW],
    ['most name, although the first one does not', [OLD, NEW, NEW], NEW],
    ['most name, while another one does not answer', [null, NEW, NEW], NEW],
    ['the only live one names', [DOWN, DOWN, NEW], NEW],
    ['the first of two names with equal votes', [OLD, NEW, DOWN], OLD],
  ])('is the one that %s', async (_which, answers, expected) => {
    const { connection } = start(answers);
    await connection.connect();
    expect(connection.peer).toEqual({ host: expected, port: PORT });
    await connection.close();
  });

  it('is named by those that answer within a second', async () => {
    const { clock, connection } = start([null, null, NEW]);
    const connected = connection.connect();
    await clock.advance(SENTINEL_COMMAND_TIMEOUT_MS);
    await connected;
    expect(connection.peer?.host).toBe(NEW);
    await connection.close();
    expect(clock.timers).toBe(0);
  });

  it('is unknown while all are down, and the error gives the reason', async () => {
    const { connection, errors } = start([DOWN, DOWN]);
    connection.connect().catch(() => undefined);
    await settled();
    expect(errors).toEqual(['All sentinels are unreachable. Last error: connect ECONNREFUSED']);
    await connection.close();
  });

  it('is the one that was announced last, although others do not know it yet, until it turns out to be a replica', async () => {
    const { clock, connection, announce, follow } = start([OLD, OLD, OLD], { replicas: [OTHER] });
    await connection.connect();
    const { watch } = follow();
    await settled();
    announce(1, NEW);
    await clock.advance(1_000);
    expect(connection.peer?.host).toBe(NEW);
    announce(2, OTHER);
    await clock.advance(1_000);
    expect([connection.status, connection.peer?.host]).toEqual(['ready', NEW]);
    await watch.close();
    await connection.close();
    expect(clock.timers).toBe(0);
  });
});

describe('a master that most sentinels named, and then could no longer be asked', () => {
  it('is left for the one that a live sentinel names, when it turns out to be a replica', async () => {
    const replicas: string[] = [];
    const { clock, connection, answers } = start([OLD, OLD, OLD], { replicas });
    await connection.connect();
    answers.splice(0, 3, DOWN, DOWN, NEW);
    replicas.push(OLD);
    connection.reconnect();
    await clock.advance(5_000);
    expect([connection.status, connection.peer?.host]).toEqual(['ready', NEW]);
    await connection.close();
    expect(clock.timers).toBe(0);
  });
});

describe('a `natMap` behind sentinels', () => {
  it.each<[string, RedisNatMap, string]>([
    ['throws', () => { throw new Error('no route'); }, 'no route'], // prettier-ignore
    ['throws null', () => { throw null; }, '`null`'], // prettier-ignore
    ['names no port', (() => ({ host: 'b' })) as unknown as RedisNatMap, '{ host, port }'],
    ['is a promise', (async () => null) as unknown as RedisNatMap, '{ host, port }'],
    ['is a table with a port that is none', { [`${OLD}:${PORT}`]: { host: 'b', port: 0 } }, '{ host, port }'],
  ])('that %s fails each try to connect, with an error that names it', async (_how, natMap, words) => {
    const { clock, connection, errors } = start([OLD, OLD, OLD], { natMap });
    connection.connect().catch(() => undefined);
    await settled();
    expect(errors).toHaveLength(1);
    await clock.advance(1_000);
    expect(errors.length).toBeGreaterThan(2);
    for (const text of ['`natMap`', `"${OLD}:${PORT}"`, words]) expect(errors[0]).toContain(text);
    await connection.close();
    expect(clock.timers).toBe(0);
  });

  it('that throws for a new master takes the connection from the old one, until it no longer throws', async () => {
    let isBroken = false;
    const natMap = (announced: string): null => {
      if (isBroken && announced.startsWith(NEW)) throw new Error('no route');
      return null;
    };
    const { clock, connection, errors, announce, follow } = start([OLD, OLD, OLD], { natMap });
    await connection.connect();
    const { watch } = follow();
    await settled();
    isBroken = true;
    announce(1, NEW);
    await clock.advance(500);
    expect(connection.isWritable).toBe(false);
    expect(errors[0]).toContain('no route');
    isBroken = false;
    await clock.advance(2_000);
    expect(connection.peer?.host).toBe(NEW);
    await watch.close();
    await connection.close();
    expect(clock.timers).toBe(0);
  });
});

describe('a connection that an application routes itself', () => {
  it('stays where it leads, and is opened again when the sentinels name another master', async () => {
    const { connection, announce, follow } = start([OLD, OLD, OLD], { hasOwnRoute: true });
    await connection.connect();
    const elsewhere = { host: '127.0.0.1', port: 40_000 };
    jest.spyOn(connection, 'peer', 'get').mockReturnValue(elsewhere);
    const { watch, told } = follow();
    await settled();
    expect([connection.status, told]).toEqual(['ready', [true]]);
    announce(1, NEW);
    expect(told).toEqual([true, false]);
    await watch.close();
    await connection.close();
  });
});
