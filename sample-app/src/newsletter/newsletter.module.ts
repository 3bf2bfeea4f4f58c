import { Module } from '@nestjs/common';
import { NewsletterController } from './newsletter.controller.js';
import { NewsletterService } from './newsletter.service.js';

/** A job that somebody else schedules: the one who calls it names its fire. */
@Module({ controllers: [NewsletterController], providers: [NewsletterService] })
export class NewsletterModule {}
