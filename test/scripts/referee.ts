import { type Request, type Command, type Release } from './commands.js';
import { ReferenceModel } from './reference-model.js';

/** What the script answered, as text, and the messages that it published: `client kind attempt ...`. */
export interface Answer {
  readonly reply: readonly string[];
  readonly pushes: readonly string[];
  readonly now: number;
}

/** Tells the reference model of each lock what was said about it. */
export class Referee {
  readonly #models: ReadonlyMap<string, ReferenceModel>;
  readonly #runs = new Map<string, { readonly attempt: string; readonly grantedAt: number }>();
  /** The attempts of which it is known how their runs ended. */
  readonly #ended = new Set<string>();
  #latest = 0;

  constructor(
    keys: readonly string[],
    hears: (client: string) => boolean,
    private readonly requests: ReadonlyMap<string, Request>,
    /** For how long a fire is remembered. */
    private readonly rememberMs: number,
  ) {
    this.#models = new Map(keys.map((key) => [key, new ReferenceModel(hears)]));
  }

  clockSteppedBack(ms: number): void {
    for (const model of this.#models.values()) model.clockSteppedBack(ms);
  }

  /**
   * The record of a lock was kept for its time, and is gone. The next token comes from the clock: it is greater than all
   * others unless the clock was set back.
   */
  expired(key: string, now: number): void {
    this.#of(key).expired(now);
  }

  /** Those of this client who wait are passed over at times. */
  forgetOrder(client: string): void {
    for (const model of this.#models.values()) model.forgetOrder(client);
  }

  /** The token that an attempt was told. */
  tokenOf(key: string, attempt: string): number | undefined {
    return this.#of(key).tokenOf(attempt);
  }

  /** @throws when a promise is broken */
  judge(command: Command, { reply, pushes, now }: Answer): void {
    // It changed nothing, and says nothing about the lock.
    if (reply[0] === 'error') return;
    this.#latest = Math.max(this.#latest, now);
    // What ended is known before those who were granted after it.
    const isFull = reply[0] === 'busy' && reply[10] === '1';
    if (command.name === 'acquire') this.#judgeRefusal(command.request, isFull ? 'full' : reply[0]!, now);
    else this.#judgeOne(command, reply, now);
    const grants = pushes.map((push) => push.split(' ')).filter(([, kind]) => kind === 'granted');
    const told = grants.flatMap(([, , who, token, , remaining]) => {
      return grantsOf(this.requests.get(who!)!, [token!], Number(remaining));
    });
    if (command.name === 'acquire' && reply[0] === 'granted')
      told.push(...this.#grantsOfReply(command.request, reply, now));
    for (const { key, ...grant } of told.sort((a, b) => a.token - b.token)) this.#of(key).granted({ ...grant, now });
    // Behind very many dead waiters, the others learn of it when the release is sent again.
    const hasEnded =
      (reply[0] === 'released' && reply[5] !== '1') || (command.name === 'forceRelease' && Number(reply[3]) > 0);
    const calls = pushes.filter((push) => push.split(' ')[1] !== 'revoked');
    if (command.name !== 'acquire' && hasEnded) this.#of(command.key).checkHandedOver(calls.length, now);
  }

  #judgeRefusal(request: Request, outcome: string, now: number): void {
    if (outcome === 'granted') return;
    for (const key of request.keys) this.#of(key).notGranted(request, outcome, now);
  }

  #judgeOne(command: Exclude<Command, { name: 'acquire' }>, reply: readonly string[], now: number): void {
    const [outcome, attempt = '', , fourth] = reply;
    const model = this.#of(command.key);
    if (outcome === 'set' && command.name === 'setPermits')
      model.permitsSet(command.permits === '-' ? undefined : command.permits);
    if (outcome === 'revoked' && command.name === 'forceRelease') model.revoked(Number(command.seenToken));
    if (command.name === 'release') this.#endRun(command, outcome!);
    if (command.name === 'release') model.released(attempt, outcome!, now, command.holdAtLeastMs);
    const reads = outcome === 'downgraded' || (command.name === 'renew' && command.mode === 'read');
    if (outcome === 'renewed') model.renewed(attempt, now, Number(fourth));
    if (outcome === 'adopted' && command.name === 'adopt')
      model.adopted(this.requests.get(attempt)!, command.from, now, Number(fourth));
    if (outcome !== 'lost' && reads) model.downgraded(attempt, now);
    if (outcome === 'written' && command.name === 'writeBack') model.written(attempt, Number(command.newToken), now);
    if (outcome === 'lost' && 'token' in command) model.lost(attempt, command.token, now);
  }

  #grantsOfReply(request: Request, reply: readonly string[], now: number) {
    const several = request.keys.length > 1;
    const [tokens, remaining] = several ? [reply.slice(4), reply[3]] : [[reply[3]!], reply[4]];
    if (!several && reply[6] !== '') this.#checkFire(request, reply[6]!, now);
    return grantsOf(request, tokens, Number(remaining));
  }

  /** A fire is granted once to each job while it is remembered, if nobody asked for a repetition. */
  #checkFire({ keys, attempt, job, rerun }: Request, fire: string, now: number): void {
    const name = `${keys[0]} ${job} ${fire}`;
    const first = this.#runs.get(name);
    const isRemembered = first && this.#latest - first.grantedAt < this.rememberMs;
    if (isRemembered && first.attempt !== attempt && rerun === 0) throw new Error(`fire ${fire} was granted twice`);
    if (first?.attempt !== attempt) this.#runs.set(name, { attempt, grantedAt: now });
  }

  /** A run that never began leaves its fire to others. */
  #endRun({ attempt, runOutcome }: Release, outcome: string): void {
    if (outcome === 'released' && ['done', 'failed'].includes(runOutcome)) this.#ended.add(attempt);
    if (runOutcome !== 'void' || this.#ended.has(attempt)) return;
    for (const [fire, first] of this.#runs) if (first.attempt === attempt) this.#runs.delete(fire);
  }

  #of(key: string): ReferenceModel {
    return this.#models.get(key)!;
  }
}

const grantsOf = (request: Request, tokens: readonly string[], remaining: number) =>
  request.keys.map((key, i) => ({ key, request, token: Number(tokens[i]), remaining }));
