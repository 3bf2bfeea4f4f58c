import * as iovalkey from 'iovalkey';
import { iovalkeyLibrary } from '../../lib/redis/client/ioredis.js';
import { clientConformance } from './support/conformance.js';
import { likeIoredis } from './support/like-ioredis.js';

clientConformance(likeIoredis('iovalkey', iovalkeyLibrary, iovalkey));
