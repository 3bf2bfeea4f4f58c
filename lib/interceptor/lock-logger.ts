import { Logger } from '@nestjs/common';
import { harmless } from '../core/foreign-code.js';
import { type Reporter } from '../core/reporter.js';

/** What the module says to people, through the logger of the app. */
export const logger: Reporter = harmless(new Logger('RedisLock'));
