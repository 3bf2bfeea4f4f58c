import { type BeforeApplicationShutdown, Injectable } from '@nestjs/common';
import { Observable, of } from 'rxjs';
import { currentLock, Limited, Locked, ReadLocked, WriteLocked } from '../../../../lib/index.js';

/** Decorated methods with each option. */
@Injectable()
export class Work implements BeforeApplicationShutdown {
  /** What goes on while a method holds its lock. */
  inside: () => unknown = () => undefined;
  /** Whether the app is being closed. */
  isClosing = false;

  beforeApplicationShutdown(): void {
    this.isClosing = true;
  }

  @Locked('order:<0>', { waitMs: 30 })
  async waits(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('order:<0>', { ifBusy: 'skip' })
  async skips(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('order:<0>', { ifBusy: 'throw' })
  async throws(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('order:<0>', { ifBusy: (key: string, id: string) => `${key} is busy for ${id}` })
  async answers(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @ReadLocked('order:<0>', { waitMs: 30 })
  async reads(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @WriteLocked(['order:<0>', 'order:<1>'], { waitMs: 30 })
  async moves(id: string, _other: string): Promise<unknown> {
    return this.#run(id);
  }

  @Limited('order:<0>', 2, { waitMs: 30 })
  async limited(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('order:<0>', { reentrant: false })
  async strict(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked((keys: readonly string[]) => keys)
  async chosen(_keys: readonly string[]): Promise<unknown> {
    return this.#run('chosen');
  }

  @Locked('order:<0>', { onUnavailable: 'skip', waitMs: 0 })
  async skipsAway(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('order:<0>', { onUnavailable: 'run-unlocked', waitMs: 0 })
  async unlocked(id: string): Promise<unknown> {
    return `ran ${id}`;
  }

  @Locked('order:<0>', { onUnavailable: 'fail', waitMs: 0 })
  async fails(id: string): Promise<unknown> {
    return this.#run(id);
  }

  @Locked('slot', { oncePer: 3_600_000, spreadMs: 0 })
  async slot(): Promise<unknown> {
    return this.#run('slot');
  }

  @Locked('slot', { oncePer: 3_600_000, spreadMs: 0, ifBusy: 'throw' })
  async slotThrows(): Promise<unknown> {
    return this.#run('slot');
  }

  @Locked('slot', { oncePer: 3_600_000, spreadMs: 0, rerunOnLoss: true, waitMs: 30 })
  async slotAgain(): Promise<unknown> {
    return this.#run('slot');
  }

  @Locked((keys: readonly string[]) => keys, { oncePer: 3_600_000, spreadMs: 0 })
  async slotChosen(_keys: readonly string[]): Promise<unknown> {
    return this.#run('slot');
  }

  @Locked('order:<0>', { waitMs: 30 })
  values(id: string): Observable<string> {
    return of(id, currentLock().key);
  }

  @Locked('order:<0>', { ifBusy: 'skip' })
  async *items(id: string): AsyncGenerator<string> {
    yield id;
    yield currentLock().key;
  }

  async #run(id: string): Promise<unknown> {
    const { key, mode } = currentLock();
    return { ran: id, key, mode, inside: await this.inside() };
  }
}
