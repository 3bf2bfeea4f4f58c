import { Controller, Headers, HttpCode, Injectable, Post, UseInterceptors } from '@nestjs/common';
import { LockInterceptor } from '../../../lib/index.js';

/** Where answers are kept: a table with the key as its primary key, or Redis with a time to live. */
@Injectable()
export class Answers {
  readonly #byKey = new Map<string, string>();

  async get(key: string): Promise<string | undefined> {
    return this.#byKey.get(key);
  }

  async keep(key: string, answer: string): Promise<string> {
    this.#byKey.set(key, answer);
    return answer;
  }
}

@Controller('payments')
export class Payments {
  charges = 0;

  constructor(private readonly answers: Answers) {}

  /** A client that repeats its request waits for the first one, and gets the same answer. Without the header: 400. */
  @Post()
  @HttpCode(200)
  @UseInterceptors(LockInterceptor.for('payment:<0.headers.idempotency-key>', { waitMs: 5_000, status: 409 }))
  async pay(@Headers('idempotency-key') key: string): Promise<string> {
    const answer = await this.answers.get(key);
    if (answer !== undefined) return answer;
    this.charges += 1;
    return this.answers.keep(key, `charge ${this.charges}`);
  }
}
