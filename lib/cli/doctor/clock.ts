import { durationText } from '../output/text.js';
import { type Result, ok, warn } from './finding.js';
import { type Server } from './servers.js';

/** How far the clock of a server is ahead of the one of this machine, in milliseconds, and by how much that may be wrong. */
export interface ClockOffset {
  readonly ms: number;
  readonly uncertaintyMs: number;
}

const TRIES = 5;

/** The best of some measurements. The answer may have come from any moment of its round trip. */
export async function clockOffset(server: Server): Promise<ClockOffset> {
  const offsets: ClockOffset[] = [];
  for (let count = 0; count < TRIES; count += 1) {
    const [wall, start] = [Date.now(), performance.now()];
    const micros = await server.ask((client) => client.time());
    const half = (performance.now() - start) / 2;
    offsets.push({ ms: micros / 1_000 - (wall + half), uncertaintyMs: half });
  }
  return offsets.reduce((best, one) => (one.uncertaintyMs < best.uncertaintyMs ? one : best));
}

const FAR_MS = 1_000;

const SYNCHRONIZE = 'Synchronize the clocks (NTP).';

/** The clock of a server against that of this machine. */
export function checkOffset({ ms, uncertaintyMs }: ClockOffset): Result {
  const within = `give or take ${Math.ceil(uncertaintyMs)} ms`;
  const apart = Math.abs(ms) - uncertaintyMs;
  if (apart < FAR_MS) {
    return ok(`The clock of the server and the one of this machine agree (${Math.round(Math.abs(ms))} ms, ${within}).`);
  }
  const text =
    `The clock of the server is ${durationText(Math.abs(ms))} ${ms > 0 ? 'ahead of' : 'behind'} the one of this machine (${within}). ` +
    'Leases are counted by the server alone, and stay right. A job with `oncePer` may name another fire, and the times that are ' +
    'printed here are those of the server.';
  return warn(text, SYNCHRONIZE);
}

const NODES_FAR_MS = 500;

/** The clocks of several servers against each other. */
export function checkSpread(offsets: readonly ClockOffset[]): Result {
  const sorted = [...offsets].sort((a, b) => a.ms - b.ms);
  const [first, last] = [sorted[0]!, sorted.at(-1)!];
  const apart = last.ms - first.ms - first.uncertaintyMs - last.uncertaintyMs;
  if (apart < NODES_FAR_MS) return ok('The clocks of the servers agree with each other.');
  const text =
    `The clocks of the servers are up to ${durationText(last.ms - first.ms)} apart. After a failover to a server whose clock is ` +
    'ahead, leases end early; to one that is behind, they end late.';
  return warn(text, SYNCHRONIZE);
}
