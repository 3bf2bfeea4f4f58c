import * as ioredis from 'ioredis';
import { ioredisLibrary } from '../../lib/redis/client/ioredis.js';
import { clientConformance } from './support/conformance.js';
import { likeIoredis } from './support/like-ioredis.js';

clientConformance(likeIoredis('ioredis', ioredisLibrary, ioredis));
