import { SilenceWatch } from '../../../../lib/redis/connection/silence-watch.js';
import { type RedisClient } from '../../../../lib/redis/client/cluster.js';
import { FakeClock } from '../../../support/core/fake-clock.js';

/** One connection; each of its commands is given up after `TIMEOUT_MS`. */
const TIMEOUT_MS = 100;

function start() {
  const clock = new FakeClock();
  const health = new SilenceWatch(clock);
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
  it('is alive until it was silent for three times its usual answer time', async () => {
    const { clock, answer, giveUp, deaths } = start();
    await answer(150);
    await giveUp();
    await clock.advance(349);
    expect(deaths).toEqual([]);
    await clock.advance(1);
    expect(deaths).toEqual([600]);
  });

  it('is not blamed for commands that the previous connection left unanswered', async () => {
    const { clock, health, connection, answer, giveUp, deaths } = start();
    await answer(150);
    await giveUp();
    health.onReady(connection);
    await clock.advance(60_000);
    expect(deaths).toEqual([]);
  });

  it('is checked once, for any number of commands that are given up', async () => {
    const { clock, answer, giveUp, deaths } = start();
    await answer(150);
    for (let i = 0; i < 3; i += 1) await giveUp();
    await clock.advance(60_000);
    expect(deaths).toHaveLength(1);
  });

  it('gets twice the time after each replacement that did not help, up to five seconds, until it answers', async () => {
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

  it('gradually forgets slow answers', async () => {
    const { answer, giveUp, deaths } = start();
    await answer(1_000);
    for (let i = 0; i < 40; i += 1) await answer(1);
    await giveUp();
    expect(deaths).toHaveLength(1);
  });

  it('learns nothing from answers that waited behind another command, or for this process', async () => {
    const { clock, answer, giveUp, deaths } = start();
    await answer(1);
    await answer(1_300);
    const from = clock.now();
    await giveUp();
    expect([deaths.length, clock.now() - from]).toEqual([1, TIMEOUT_MS]);
  });

  it('is checked by the answers of its new connection when the network became slow', async () => {
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

  /** A command that was sent before the event loop was blocked for 350 ms. */
  const giveUpAfterBlock = async ({ clock, health, connection, deaths }: ReturnType<typeof start>): Promise<number> => {
    const sentAt = clock.now();
    await clock.advance(350);
    health.onTimeout(connection, sentAt, TIMEOUT_MS, () => deaths.push(clock.now() - sentAt));
    return sentAt;
  };

  it('has half a second after the event loop was blocked: the command may have been written only then', async () => {
    const parts = start();
    const { clock, health, connection, answer, giveUp, deaths } = parts;
    await answer(1);
    const sentAt = await giveUpAfterBlock(parts);
    await clock.advance(499);
    health.onAnswer(connection, sentAt);
    await clock.advance(60_000);
    expect(deaths).toEqual([]);
    await giveUp();
    expect(deaths).toHaveLength(1);
  });

  it('has three times its usual answer time after the event loop was blocked', async () => {
    const parts = start();
    await parts.answer(400);
    await giveUpAfterBlock(parts);
    await parts.clock.advance(60_000);
    expect(parts.deaths).toEqual([350 + 1_200]);
  });

  it('always gets at least the limit of the command', async () => {
    const { giveUp, deaths } = start();
    for (let i = 0; i < 5; i += 1) await giveUp(8_000);
    expect(deaths).toHaveLength(5);
  });
});
