import { EventEmitter } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { type WakeUp } from '../../../lib/core/lock-store.js';
import { type RedisClient } from '../../../lib/redis/redis-client.js';
import { WakeUpChannel } from '../../../lib/redis/wake-up-channel.js';
import { FakeClock, settled } from '../../support/fake-clock.js';
import { FakeReporter } from '../../support/fake-store.js';

/** The connection that subscribes: the test says when it is ready, and answers each subscription. */
class FakeSubscriber extends EventEmitter {
  readonly subscriptions: { name: string; confirm(): void; refuse(error: Error): void }[] = [];

  subscribe(name: string): Promise<void> {
    return new Promise((resolve, reject) => this.subscriptions.push({ name, confirm: resolve, refuse: reject }));
  }
}

function open() {
  const [subscriber, reporter] = [new FakeSubscriber(), new FakeReporter()];
  /** What the listener was told, in order. */
  const told: (string | [string, WakeUp])[] = [];
  const listener = {
    onListening: () => void told.push('listening'),
    onGap: () => void told.push('gap'),
    onWakeUp: (attempt: string, wakeUp: WakeUp) => void told.push([attempt, wakeUp]),
  };
  const client = { options: {}, duplicate: () => subscriber } as unknown as RedisClient;
  const channel = new WakeUpChannel(() => client, 'wake:c', listener, new FakeClock(), reporter);
  const connect = async () => {
    subscriber.emit('ready');
    await settled();
    return subscriber.subscriptions.at(-1)!;
  };
  return { subscriber, reporter, told, channel, connect };
}

const replyError = (message: string): Error => Object.assign(new Error(message), { name: 'ReplyError' });

describe('the wake-up channel', () => {
  it('tells that it listens after the first subscription, a gap after each later one, and nothing before they stand', async () => {
    const { subscriber, told, connect } = open();
    for (const times of [1, 2, 3]) {
      const subscription = await connect();
      expect([subscription.name, subscriber.subscriptions.length, told.length]).toEqual(['wake:c', times, times - 1]);
      subscription.confirm();
      await settled();
      expect(told).toEqual(['listening', 'gap', 'gap'].slice(0, times));
    }
  });

  it('tells none when the connection is lost before the answer, but after the next one', async () => {
    const { told, reporter, connect } = open();
    (await connect()).refuse(new Error('Connection is closed.'));
    await settled();
    expect([told, reporter.lines]).toEqual([[], []]);
    (await connect()).confirm();
    await settled();
    expect(told).toEqual(['listening']);
  });

  it('tells none when it is refused, and says so once', async () => {
    const { told, reporter, connect } = open();
    for (let time = 0; time < 2; time += 1) {
      (await connect()).refuse(replyError('NOPERM no channels'));
      await settled();
    }
    const warning = 'warn Wake-ups are off, waiting locks poll instead: NOPERM no channels';
    expect([told, reporter.lines]).toEqual([[], [warning]]);
  });

  it('tells the attempt of a message, and nothing of one that it does not know', () => {
    const { subscriber, told } = open();
    for (const message of ['wake c.1', 'revoked c.2', 'granted c.3 77 1000 2500', 'wake', 'other c.4', '']) {
      subscriber.emit('message', 'wake:c', message);
    }
    expect(told).toEqual([
      ['c.1', { kind: 'wake' }],
      ['c.2', { kind: 'revoked' }],
      ['c.3', { kind: 'granted', fencingToken: 77, serverTimeMs: 1_000, remainingMs: 2_500 }],
    ]);
  });
});
