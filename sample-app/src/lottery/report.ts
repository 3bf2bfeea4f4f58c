import { instanceName } from '../settings.js';

/** What an instance did at one fire of the lottery. */
export interface FireReport {
  readonly fire: number;
  readonly instance: string;
  readonly outcome: 'started' | 'won' | 'skipped' | 'refused';
  readonly fencingToken?: number;
}

/** Tells the runner, which prints a line per fire; an instance of its own prints it itself. */
export function report(entry: Omit<FireReport, 'instance'>): void {
  const message: FireReport = { ...entry, instance: instanceName };
  if (process.send) process.send({ kind: 'fire', ...message });
  else console.log(JSON.stringify(message));
}
