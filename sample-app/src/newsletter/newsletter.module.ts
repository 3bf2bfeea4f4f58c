import { Module } from '@nestjs/common';
import { NewsletterController } from './newsletter.controller.js';
import { NewsletterService } from './newsletter.service.js';

/** A job with an external scheduler, which names the fire in each call. */
@Module({ controllers: [NewsletterController], providers: [NewsletterService] })
export class NewsletterModule {}
