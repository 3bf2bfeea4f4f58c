import { Logger } from '@nestjs/common';
import { harmless } from '../core/foreign-code.js';
import { type Reporter } from '../core/reporter.js';

export const logger: Reporter = harmless(new Logger('RedisLock'));
