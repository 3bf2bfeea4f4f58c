import { BadRequestException, Body, Controller, Post } from '@nestjs/common';
import { INSTANCE } from '../instance.js';
import { type Delivery, NewsletterService } from './newsletter.service.js';

/** What one instance did about an issue. */
export interface NewsletterAnswer {
  readonly instance: string;
  /** Null if another instance sends the issue. */
  readonly delivery: Delivery | null;
}

@Controller('newsletter')
export class NewsletterController {
  constructor(private readonly newsletter: NewsletterService) {}

  @Post()
  async send(@Body('issue') issue: unknown): Promise<NewsletterAnswer> {
    if (!Number.isSafeInteger(issue)) throw new BadRequestException('Expected `issue` to be a time in milliseconds.');
    const delivery = await this.newsletter.send(new Date(issue as number));
    return { instance: INSTANCE, delivery: delivery ?? null };
  }
}
