import { Logger } from '@nestjs/common';
import { type Reporter, unfelt } from '../core/reporter.js';

/** What the module says to people, through the logger of the app. */
export const logger: Reporter = unfelt(new Logger('RedisLock'));
