import { systemRandomness } from '../../../../lib/core/randomness.js';
import { OwnConnection } from '../../../../lib/redis/client/connection.js';
import { type Operands } from '../../../../lib/redis/client/redis-client.js';
import { Sentinels } from '../../../../lib/redis/client/sentinels.js';
import { type ServerAddress } from '../../../../lib/redis/client/server-address.js';
import { SENTINEL_COMMAND_TIMEOUT_MS } from '../../../../lib/redis/timing.js';
import { FakeClock, settled } from '../../../support/core/fake-clock.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { type FakeSession, planOfFake } from '../../../support/redis/fake-session.js';

const [OLD, NEW, OTHER] = ['10.0.0.1', '10.0.0.2', '10.0.0.3'] as const;
const PORT = 6379;

/** What each sentinel answers: the host of a master, nothing at all (null), or that it is down (an error). */
type Answer = string | null | Error;

function start(answers: readonly Answer[]) {
  const clock = new FakeClock();
  const parts = { clock, random: systemRandomness, reporter: new FakeReporter() };
  const links: FakeSession[][] = answers.map(() => []);
  const group = {
    name: 'mymaster',
    sentinels: answers.map((_, i) => ({ host: `10.1.0.${i}`, port: 26_379 })),
    isOpenToOthers: false,
    answerMs: SENTINEL_COMMAND_TIMEOUT_MS,
    open: (at: ServerAddress) => {
      const i = Number(at.host.split('.')[3]);
      const answer = answers[i]!;
      const reply = ([, subcommand]: Operands): unknown => {
        if (answer instanceof Error) return answer;
        if (subcommand === 'SENTINELS') return [];
        return answer === null ? new Promise(() => undefined) : [answer, String(PORT)];
      };
      return OwnConnection.opened(planOfFake(at, reply, links[i]), parts);
    },
  };
  const sentinels = new Sentinels(group, parts);
  const announce = (sentinel: number, host: string): void => {
    const switched = `mymaster ${OLD} ${PORT} ${host} ${PORT}`;
    for (const { listener } of links[sentinel]!) listener.onMessage('+switch-master', switched);
  };
  const master = () => sentinels.master(new AbortController().signal).then(({ host }) => host);
  return { clock, sentinels, announce, master };
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
    expect(await start(answers).master()).toBe(expected);
  });

  it('is named by those that answer within a second', async () => {
    const { clock, master } = start([null, null, NEW]);
    const named = master();
    await clock.advance(SENTINEL_COMMAND_TIMEOUT_MS);
    expect(await named).toBe(NEW);
  });

  it('is unknown while all are down, and the error gives the reason', async () => {
    await expect(start([DOWN, DOWN]).master()).rejects.toThrow(
      'All sentinels are unreachable. Last error: connect ECONNREFUSED',
    );
  });

  it('is the one that was announced last, although others do not know it yet, until it turns out to be a replica', async () => {
    const { sentinels, announce, master } = start([OLD, OLD, OLD]);
    const told: string[] = [];
    const watch = sentinels.watch(() => told.push(sentinels.current!.host));
    await settled();
    announce(1, NEW);
    announce(2, OTHER);
    expect(told).toEqual([OLD, NEW, OTHER]);
    sentinels.refute({ host: OTHER, port: PORT });
    expect(sentinels.current!.host).toBe(NEW);
    await watch.close();
    // These ask again: all withdraw what they announced.
    expect(await master()).toBe(OLD);
  });
});
