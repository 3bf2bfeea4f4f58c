import { setTimeout as sleep } from 'node:timers/promises';
import { UsageError } from '../../../scripts/command.mjs';
import { type Forgets } from '../../checker/events.js';
import { randomFrom, type Randoms } from '../worker/random.mjs';
import { type Recorder } from '../recorder.js';
import { now } from '../worker/standstills.mjs';

/** One fault, with all random choices made. */
export interface PlannedFault {
  readonly kind: string;
  /** What it acts upon: faults on one target come one after the other. */
  readonly target: string;
  readonly worker?: string;
  readonly forgets?: Forgets;
  /** How long afterwards no server may lose data, so that promise 8 holds: a clock was set back. */
  readonly keepsDataMs?: number;
  /** How far it sets the clock of a server back. */
  readonly stepsBackMs?: number;
  /** How long it lasts at least; the plan leaves that much room. */
  readonly lastsMs: number;
  inflict(): Promise<void>;
}

/** How far a clock steps at most. */
export const LARGEST_STEP_MS = 5_000;

/** A kind of fault on one topology. */
export interface FaultKind {
  readonly name: string;
  plan(random: Randoms): Omit<PlannedFault, 'kind'>;
}

/** Those of the kinds that have one of these names. */
export const named = (kinds: readonly FaultKind[], ...names: readonly string[]): FaultKind[] =>
  kinds.filter(({ name }) => names.includes(name));

/** The kinds that the option `--only` names; all of them without it. */
export function chosen(kinds: readonly FaultKind[], names: readonly string[] | undefined): readonly FaultKind[] {
  if (!names || (names.length === 1 && names[0] === 'none')) return names ? [] : kinds;
  const known = kinds.map(({ name }) => name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown === undefined) return kinds.filter(({ name }) => names.includes(name));
  throw new UsageError(`--only ${unknown}: expected none, or some of ${known.join(', ')}.`);
}

/** A fault, and when it begins, counted from the begin of the run. */
export interface Appointment {
  readonly atMs: number;
  readonly fault: PlannedFault;
}

/** The time at the end of a run for the recovery from its last faults. */
const LAST_CALM_MS = 4_000;

/** Faults begin later than planned, and last longer: a server needs time to start. */
const MARGIN_MS = 3_000;

/**
 * Plans the faults of a run; the same seed gives the same plan. They come in bursts of one to three. Half of the pauses are
 * short, so that a fault meets the recovery from another; half are long, so that bounds can be checked. All kinds come in
 * turn, in a random order.
 */
export function planFaults(kinds: readonly FaultKind[], seed: number, lengthMs: number): Appointment[] {
  const random = randomFrom(seed);
  const plan: Appointment[] = [];
  if (kinds.length === 0) return plan;
  const agenda = new Agenda();
  let deck: FaultKind[] = [];
  for (let atMs = 1_000; atMs < lengthMs - LAST_CALM_MS; atMs += pauseMs(random)) {
    for (let i = random.between(1, 3); i > 0; i--) {
      if (deck.length === 0) deck = shuffled(kinds, random);
      const kind = deck.pop()!;
      const fault = { kind: kind.name, ...kind.plan(randomFrom(random.between(1, 2 ** 31))) };
      const earliest = Math.max(atMs, agenda.freeFor(fault));
      if (earliest + fault.lastsMs > lengthMs - LAST_CALM_MS) continue;
      agenda.enter(fault, earliest);
      plan.push({ atMs: earliest, fault });
      atMs += random.between(0, 800);
    }
  }
  return plan.sort((a, b) => a.atMs - b.atMs);
}

/**
 * Which faults must not overlap. Promise 8 holds after a loss of data if no clock steps back by more than the outage took. So a
 * clock does not step back soon after a loss, and no data is lost soon after a clock has stepped back.
 */
class Agenda {
  readonly #freeAt = new Map<string, number>();
  #keepsDataUntil = 0;
  #stepsBackFrom = 0;

  freeFor({ target, forgets, keepsDataMs }: PlannedFault): number {
    const free = this.#freeAt.get(target) ?? 0;
    return Math.max(free, forgets ? this.#keepsDataUntil : 0, keepsDataMs ? this.#stepsBackFrom : 0);
  }

  enter({ target, forgets, keepsDataMs, lastsMs }: PlannedFault, atMs: number): void {
    const end = atMs + lastsMs;
    this.#freeAt.set(target, end + 200);
    if (forgets) this.#stepsBackFrom = Math.max(this.#stepsBackFrom, end + LARGEST_STEP_MS + MARGIN_MS);
    if (!keepsDataMs) return;
    this.#keepsDataUntil = Math.max(this.#keepsDataUntil, end + keepsDataMs + MARGIN_MS);
    // Two steps at once would be a larger one.
    this.#stepsBackFrom = Math.max(this.#stepsBackFrom, end + keepsDataMs + MARGIN_MS);
  }
}

const pauseMs = (random: Randoms): number =>
  random.chance(0.5) ? random.between(300, 1_500) : random.between(4_000, 8_000);

function shuffled<T>(list: readonly T[], random: Randoms): T[] {
  const rest = [...list];
  return list.map(() => rest.splice(random.between(0, rest.length - 1), 1)[0]!);
}

/** Carries out a plan. Faults on one target come one after the other, also if one takes longer than planned. */
export async function carryOut(plan: readonly Appointment[], recorder: Recorder): Promise<void> {
  const start = now();
  const last = new Map<string, Promise<void>>();
  for (const [id, { atMs, fault }] of plan.entries()) {
    await sleep(Math.max(0, start + atMs - now()));
    const before = last.get(fault.target) ?? Promise.resolve();
    last.set(
      fault.target,
      before.then(() => inflict(id, fault, recorder)),
    );
  }
  await Promise.all(last.values());
}

async function inflict(id: number, fault: PlannedFault, recorder: Recorder): Promise<void> {
  const { kind, worker, forgets, stepsBackMs } = fault;
  const what = { kind, ...(worker !== undefined && { worker }), ...(forgets && { forgets }) };
  recorder.note({ e: 'fault', id, ...what, ...(stepsBackMs && { stepsBackMs }) });
  await fault.inflict();
  recorder.note({ e: 'over', id });
}
