import { Controller, Headers, HttpCode, Injectable, Post, Req, UseInterceptors } from '@nestjs/common';
import { LockInterceptor, lockKey } from '../../../lib/index.js';

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

/** A guard has set the user. */
interface SignedIn {
  readonly user: { readonly id: string };
}

@Controller('payments')
export class Payments {
  charges = 0;

  constructor(private readonly answers: Answers) {}

  /** A client that repeats its request waits for the first one, and gets the same answer. Without the header: 400. */
  @Post()
  @HttpCode(200)
  @UseInterceptors(
    LockInterceptor.for('payment:<0.user.id>:<0.headers.idempotency-key>', { waitMs: 5_000, status: 409 }),
  )
  async pay(@Req() { user }: SignedIn, @Headers('idempotency-key') key: string): Promise<string> {
    // With the user: two users may send the same key.
    const id = lockKey`${user.id}:${key}`;
    const answer = await this.answers.get(id);
    if (answer !== undefined) return answer;
    this.charges += 1;
    return this.answers.keep(id, `charge ${this.charges}`);
  }
}
