import { createHash } from 'node:crypto';
import {
  Body,
  ConflictException,
  Controller,
  Headers,
  HttpCode,
  Injectable,
  Post,
  Req,
  UnprocessableEntityException,
  UseInterceptors,
} from '@nestjs/common';
import { currentLock, LockInterceptor, lockKey } from '../../../lib/index.js';

/** What is kept of a request; without an `answer`, it has begun, and its call may have died. */
interface RequestRow {
  readonly hash: string;
  readonly fencingToken: number;
  readonly answer?: string;
}

/** Stands for a table with the id as its primary key. Each method is one statement there. */
@Injectable()
export class Requests {
  readonly #rows = new Map<string, RequestRow>();

  /** Inserts a row, or puts the token of this call into the row that is there. */
  async begin(id: string, hash: string, fencingToken: number): Promise<RequestRow> {
    const row = { hash, ...this.#rows.get(id), fencingToken };
    this.#rows.set(id, row);
    return row;
  }

  /** Refuses a call that lost its lock: another one has put its token into the row. */
  async complete(id: string, fencingToken: number, answer: string): Promise<void> {
    const row = this.#rows.get(id);
    if (row?.fencingToken !== fencingToken) throw new ConflictException('A later call has this request.');
    this.#rows.set(id, { ...row, answer });
  }
}

/** What the request changes. It does each id once, and returns its first answer for it again. */
export abstract class PaymentProvider {
  abstract charge(id: string, amount: number): Promise<string>;
}

/** A guard has set the user. */
interface SignedIn {
  readonly user: { readonly tenant: string; readonly id: string };
}

@Controller('payments')
export class Payments {
  constructor(
    private readonly requests: Requests,
    private readonly provider: PaymentProvider,
  ) {}

  /** A repeated request waits for the first one, for 5 seconds at most: then 409. Without the header: 400. */
  @Post()
  @HttpCode(200)
  @UseInterceptors(
    LockInterceptor.for('payment:<0.user.tenant>:<0.user.id>:<0.headers.idempotency-key>', {
      waitMs: 5_000,
      status: 409,
    }),
  )
  async pay(
    @Req() { user }: SignedIn,
    @Headers('idempotency-key') key: string,
    @Body() order: { readonly amount: number },
  ): Promise<string> {
    // Two users may send the same key.
    const id = lockKey`${user.tenant}:${user.id}:${key}`;
    const hash = createHash('sha256').update(JSON.stringify(order)).digest('hex');
    const { fencingToken } = currentLock();
    const row = await this.requests.begin(id, hash, fencingToken);
    if (row.hash !== hash) throw new UnprocessableEntityException('This key belongs to a request with another body.');
    if (row.answer !== undefined) return row.answer;
    // A call that died may have charged already: the provider recognises the id.
    const answer = await this.provider.charge(id, order.amount);
    await this.requests.complete(id, fencingToken, answer);
    return answer;
  }
}
