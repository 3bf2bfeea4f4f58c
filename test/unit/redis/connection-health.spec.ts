import { ConnectionHealth } from '../../../lib/redis/connection/connection-health.js';
import { type RedisClient } from '../../../lib/redis/connection/redis-client.js';
import { FakeClock } from '../../support/core/fake-clock.js';

/** One connection; each of its commands is given up after `TIMEOUT_MS`. */
const TIMEOUT_MS = 100;

function start() {
  const clock = new FakeClock();
  const health = new ConnectionHealth(clock);
  const connection = {} as RedisClient;
  const deaths: number[] = [];
  const begin = clock.now();
  /** A command that is answered after `ms`. */
  const answer = async (ms: number): Promise<void> => {
    const sentAt = clock.now();
    await clock.advance(ms);
    health.onAnswer(connection, sentAt);
  };
  /** A command that is given up. */
  const giveUp = async (timeoutMs = TIMEOUT_MS): Promise<void> => {
    const sentAt = clock.now();
    await clock.advance(timeoutMs);
    health.onTimeout(connection, sentAt, timeoutMs, () => deaths.push(clock.now() - begin));
  };
  return { clock, health, connection, deaths, answer, giveUp };
}

describe('a connection on which a command was given up', () => {
  it('is dead when nothing came since it was sent, as it is where answers are fast', async () => {
    const { answer, giveUp, deaths } = start();
    await answer(1);
    await giveUp();
    expect(deaths).toEqual([101]);
  });

  it('is not, before it was silent for three times what its answers take', async () => {
    const { clock, answer, giveUp, deaths } = start();
    await answer(150);
    await giveUp();
    await clock.advance(349);
    expect(deaths).toEqual([]);
    await clock.advance(1);
    expect(deaths).toEqual([600]);
  });

  it('lives when any answer comes meanwhile', async () => {
    const { clock, health, connection, answer, giveUp, deaths } = start();
    await answer(150);
    await giveUp();
    health.onAnswer(connection, clock.now() - 150);
    await clock.advance(60_000);
    expect(deaths).toEqual([]);
  });

  it('is not blamed for what the one before it left unanswered', async () => {
    const { clock, health, connection, answer, giveUp, deaths } = start();
    await answer(150);
    await giveUp();
    health.onReady(connection);
    await clock.advance(60_000);
    expect(deaths).toEqual([]);
  });

  it('is judged once, however many commands are given up', async () => {
    const { clock, answer, giveUp, deaths } = start();
    await answer(150);
    for (let i = 0; i < 3; i += 1) await giveUp();
    await clock.advance(60_000);
    expect(deaths).toHaveLength(1);
  });

  it('gets twice the time after each time that it was replaced in vain, up to five seconds, until it answers', async () => {
    const { clock, answer, giveUp, deaths } = start();
    const patience: number[] = [];
    for (let i = 0; i < 8; i += 1) {
      const from = clock.now();
      await giveUp();
      while (deaths.length === i) await clock.advance(1);
      patience.push(clock.now() - from);
    }
    expect(patience).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    await answer(1);
    const from = clock.now();
    await giveUp();
    expect([deaths.length, clock.now() - from]).toEqual([9, 100]);
  });

  it('forgets slow answers by and by', async () => {
    const { answer, giveUp, deaths } = start();
    await answer(1_000);
    for (let i = 0; i < 40; i += 1) await answer(1);
    await giveUp();
    expect(deaths).toHaveLength(1);
  });

  it('learns no patience from answers that waited behind somebody else, or for this process', async () => {
    const { clock, answer, giveUp, deaths } = start();
    await answer(1);
    await answer(1_300);
    const from = clock.now();
    await giveUp();
    expect([deaths.length, clock.now() - from]).toEqual([1, TIMEOUT_MS]);
  });

  it('is judged anew where the network became slow: by the answers of its new connection', async () => {
    const { clock, health, connection, answer, giveUp, deaths } = start();
    await answer(1);
    await giveUp();
    expect(deaths).toHaveLength(1);
    health.onReady(connection);
    await answer(150);
    await giveUp();
    await clock.advance(300);
    expect(deaths).toHaveLength(1);
  });

  it('is given no less than the limit of the command, however long that is', async () => {
    const { giveUp, deaths } = start();
    for (let i = 0; i < 5; i += 1) await giveUp(8_000);
    expect(deaths).toHaveLength(5);
  });
});
