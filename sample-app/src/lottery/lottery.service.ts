import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { INSTANCE } from '../instance.js';
import { DrawsRepository } from './draws.repository.js';
import { report } from './fire-report.js';
import { DRAW_MS, fireAt } from './lottery.settings.js';

const WINNERS = 10;

/** Draws the winners of one fire. From the lock it only receives the token and the signal. */
@Injectable()
export class LotteryService {
  constructor(private readonly draws: DrawsRepository) {}

  async draw(fencingToken: number | null, signal?: AbortSignal): Promise<void> {
    const fire = fireAt(Date.now());
    report({ outcome: 'drawing', fencingToken }, fire);
    const winners = await this.#pickWinners(signal);
    this.draws.record({ fire, instance: INSTANCE, fencingToken, winners });
    report({ outcome: 'drew', fencingToken, winners }, fire);
  }

  /** Stops as soon as the lock is lost, because another instance may draw by then. */
  async #pickWinners(signal?: AbortSignal): Promise<number[]> {
    const participants = this.draws.participants();
    const winners: number[] = [];
    while (winners.length < WINNERS) {
      winners.push(...participants.splice(randomInt(participants.length), 1));
      await sleep(DRAW_MS / WINNERS);
      signal?.throwIfAborted();
    }
    return winners;
  }
}
