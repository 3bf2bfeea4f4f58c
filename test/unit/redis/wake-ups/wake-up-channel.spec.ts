import { EventEmitter } from 'node:events';
import { type WakeUp } from '../../../../lib/core/store/lock-store.js';
import { lostError, type SingleClient } from '../../../../lib/redis/client/redis-client.js';
import { WakeUpChannel } from '../../../../lib/redis/wake-ups/wake-up-channel.js';
import { FakeClock, settled } from '../../../support/core/fake-clock.js';
import { FakeReporter } from '../../../support/core/fake-store.js';

interface Asked<T> {
  confirm(answer: T): void;
  refuse(error: Error): void;
}

/** A connection that subscribes: the test makes it ready, and answers each question. */
class FakeSubscriber {
  status = 'connecting';
  /** The number of requests for the identity of the server. */
  readonly infos: Asked<string>[] = [];
  readonly subscriptions: ({ name: string } & Asked<void>)[] = [];
  readonly events = new EventEmitter();

  on(event: string, listener: (...args: unknown[]) => void): () => void {
    this.events.on(event, listener);
    return () => void this.events.off(event, listener);
  }

  once(event: string, listener: () => void): () => void {
    this.events.once(event, listener);
    return () => void this.events.off(event, listener);
  }

  info(): Promise<string> {
    return new Promise((resolve, reject) => this.infos.push({ confirm: resolve, refuse: reject }));
  }

  subscribe(name: string): Promise<void> {
    return new Promise((resolve, reject) => this.subscriptions.push({ name, confirm: resolve, refuse: reject }));
  }

  disconnect(): void {
    if (this.status === 'ended') return;
    for (const asked of [...this.infos, ...this.subscriptions]) asked.refuse(lostError());
    this.#become('closed', 'ended');
  }

  async close(): Promise<void> {
    this.disconnect();
  }

  #become(...statuses: string[]): void {
    for (const status of statuses) {
      this.status = status;
      this.events.emit(status);
    }
  }

  ready(): void {
    this.#become('connected', 'ready');
  }
}

function open() {
  const [subscribers, reporter, clock]: [FakeSubscriber[], FakeReporter, FakeClock] = [
    [],
    new FakeReporter(),
    new FakeClock(),
  ];
  /** What the listener received, in order. */
  const told: (string | [string, WakeUp])[] = [];
  const listener = {
    onListening: () => void told.push('listening'),
    onMessagesMissed: () => void told.push('gap'),
    onWakeUp: (attempt: string, wakeUp: WakeUp) => void told.push([attempt, wakeUp]),
  };
  const openSubscriber = () => {
    subscribers.push(new FakeSubscriber());
    return subscribers.at(-1);
  };
  let checks = 0;
  const commands = {
    liveClient: () => ({ isCluster: false, openSubscriber }) as unknown as SingleClient,
    serverId: null as string | null,
    checkServer: () => void (checks += 1),
  };
  const channel = new WakeUpChannel({ commands, name: 'wake:c', listener, clock, reporter, acceptsGrants: () => true });
  const latest = () => subscribers.at(-1)!;
  /** Makes the latest connection ready, with the identity of its server. */
  const connect = async (runId = 'aaa') => {
    latest().ready();
    latest().infos.at(-1)!.confirm(`# Server\r\nrun_id:${runId}\r\n`);
    await settled();
    return latest().subscriptions.at(-1)!;
  };
  const listen = async (runId?: string) => {
    (await connect(runId)).confirm();
    await settled();
  };
  return { checks: () => checks, subscribers, latest, reporter, told, channel, commands, clock, connect, listen };
}

const replyError = (message: string): Error => Object.assign(new Error(message), { name: 'ReplyError' });

describe('the wake-up channel', () => {
  it('reports no gap when the connection is lost before the answer, but after the next one', async () => {
    const { told, reporter, connect } = open();
    (await connect()).refuse(lostError());
    await settled();
    expect([told, reporter.lines]).toEqual([[], []]);
    (await connect()).confirm();
    await settled();
    expect(told).toEqual(['listening']);
  });

  it('reports no gap when it is refused, and logs that once', async () => {
    const { told, reporter, connect } = open();
    for (let time = 0; time < 2; time += 1) {
      (await connect()).refuse(replyError('NOPERM no channels'));
      await settled();
    }
    const warning = 'warn Wake-ups are off, waiting locks poll instead: NOPERM no channels';
    expect([told, reporter.lines]).toEqual([[], [warning]]);
  });

  it('connects again when the refusal is temporary', async () => {
    const { subscribers, reporter, told, clock, connect, listen } = open();
    (await connect()).refuse(replyError('BUSY Redis is busy running a script.'));
    await settled();
    await clock.advance(100);
    expect([subscribers.length, reporter.lines, told]).toEqual([2, [], []]);
    await listen();
    expect(told).toEqual(['listening']);
  });

  it('passes on the attempt of a message, and ignores an unknown message', async () => {
    const { latest, told, connect } = open();
    (await connect('aaa')).confirm();
    await settled();
    told.splice(0);
    for (const message of ['wake c.1', 'revoked c.2', 'granted c.3 1002077 2 2500', 'wake', 'other c.4', '']) {
      latest().events.emit('message', 'wake:c', message);
    }
    expect(told).toEqual([
      ['c.1', { kind: 'wake' }],
      ['c.2', { kind: 'revoked' }],
      ['c.3', { kind: 'granted', fencingToken: 1_002_077, serverTimeMs: 1_000, remainingMs: 2_500, server: 'aaa' }],
    ]);
  });

  it('passes on a grant as a wake-up while the server that made it is unknown', () => {
    const { latest, told } = open();
    latest().events.emit('message', 'wake:c', 'granted c.3 1002077 2 2500');
    expect(told).toEqual([['c.3', { kind: 'wake' }]]);
  });
});

describe('the server of the wake-up channel', () => {
  it('is identified before messages arrive, and forgotten when the connection is lost', async () => {
    const { latest, channel, connect } = open();
    const subscription = await connect('aaa');
    expect(channel.serverId).toBeNull();
    subscription.confirm();
    await settled();
    expect(channel.serverId).toBe('aaa');
    latest().events.emit('closed');
    expect(channel.serverId).toBeNull();
  });

  it('stays unknown when it is refused, and messages still arrive', async () => {
    const { latest, told, channel } = open();
    latest().ready();
    latest().infos[0]!.refuse(replyError('NOPERM no info'));
    await settled();
    latest().subscriptions[0]!.confirm();
    await settled();
    expect([told, channel.serverId]).toEqual([['listening'], null]);
  });

  it('is that of the commands: the channel moves with them, and reports a gap', async () => {
    const { subscribers, told, channel, commands, clock, listen } = open();
    commands.serverId = 'aaa';
    await listen('aaa');
    commands.serverId = null;
    channel.follow();
    commands.serverId = 'aaa';
    channel.follow();
    await clock.advance(1_000);
    expect(subscribers).toHaveLength(1);
    commands.serverId = 'bbb';
    channel.follow();
    expect([subscribers[0]!.status, channel.serverId]).toEqual(['ended', null]);
    await clock.advance(0);
    subscribers[0]!.events.emit('message', 'wake:c', 'wake c.1');
    await listen('bbb');
    expect([told, channel.serverId]).toEqual([['listening', 'gap'], 'bbb']);
  });

  it('makes the commands check theirs when it differs: their connection may be dead, with nothing to send', async () => {
    const { commands, checks, listen } = open();
    commands.serverId = 'aaa';
    await listen('aaa');
    expect(checks()).toBe(0);
    commands.serverId = 'bbb';
    await listen('aaa');
    expect(checks()).toBe(1);
  });

  it('is searched less and less often while it differs each time', async () => {
    const { subscribers, commands, clock, connect } = open();
    commands.serverId = 'bbb';
    const pauses: number[] = [];
    for (let move = 0; move < 12; move += 1) {
      const [before, from] = [subscribers.length, clock.now()];
      (await connect('aaa')).confirm();
      await settled();
      while (subscribers.length === before) await clock.advance(50);
      pauses.push(clock.now() - from);
    }
    expect(pauses.slice(0, 4)).toEqual([50, 100, 200, 400]);
    expect(pauses.slice(-2)).toEqual([10_000, 10_000]);
  });

  it('is left when a reply says that nothing listens there, unless it is older than the subscription', async () => {
    const { subscribers, channel, clock, listen } = open();
    channel.replace();
    await listen();
    channel.replace(clock.now() - 1);
    await clock.advance(1_000);
    expect(subscribers).toHaveLength(1);
    channel.replace(clock.now());
    await clock.advance(0);
    expect(subscribers).toHaveLength(2);
    await channel.close();
  });
});

describe('the heartbeat of the wake-up channel', () => {
  it('is sent each second while messages are expected, and for a few seconds more', async () => {
    const { latest, channel, clock, listen } = open();
    await listen();
    await clock.advance(10_000);
    expect(latest().subscriptions).toHaveLength(1);
    channel.expectMessages();
    channel.expectMessages();
    for (let second = 0; second < 20; second += 1) {
      await clock.advance(1_000);
      latest().subscriptions.at(-1)!.confirm();
    }
    expect(latest().subscriptions).toHaveLength(1 + 5);
    expect(clock.timers).toBe(0);
  });

  it('replaces a silent connection, however often messages are expected, and reports a gap', async () => {
    const { subscribers, told, channel, clock, listen } = open();
    await listen();
    for (let second = 0; second < 4; second += 1) {
      channel.expectMessages();
      await clock.advance(1_000);
    }
    expect(subscribers.map(({ status }) => status)).toEqual(['ended', 'connecting']);
    await listen();
    expect(told).toEqual(['listening', 'gap']);
    await channel.close();
  });

  it('counts a refusal as an answer', async () => {
    const { subscribers, latest, channel, clock, listen } = open();
    await listen();
    channel.expectMessages();
    await clock.advance(1_000);
    latest().subscriptions.at(-1)!.refuse(replyError('NOPERM no channels'));
    await clock.advance(3_000);
    expect(subscribers).toHaveLength(1);
    await channel.close();
  });

  it('replaces a connection that was ready and never answers', async () => {
    const { subscribers, latest, clock, channel } = open();
    latest().ready();
    await clock.advance(2_500);
    expect(subscribers.map(({ status }) => status)).toEqual(['ended', 'connecting']);
    await channel.close();
  });

  it('waits for its connection with one listener, however often the master moves meanwhile', async () => {
    const { subscribers, latest, clock, channel } = open();
    const listenersBefore = latest().events.listenerCount('connected');
    for (let move = 0; move < 12; move += 1) channel.move(() => false);
    expect(latest().events.listenerCount('connected')).toBe(listenersBefore + 1);
    latest().ready();
    await clock.advance(1_000);
    expect(subscribers).toHaveLength(2);
    await channel.close();
  });

  it('ends when the channel closes', async () => {
    const { channel, clock, listen } = open();
    await listen();
    channel.expectMessages();
    await channel.close();
    channel.expectMessages();
    expect(clock.timers).toBe(0);
  });
});
