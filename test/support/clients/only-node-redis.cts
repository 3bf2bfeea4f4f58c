// Stands for lib/redis/client/optional-peers.cts in an app that has only node-redis.
export const loadIoredis = (): unknown => null;
export const loadIovalkey = (): unknown => null;
export const loadNodeRedis = (): unknown => require('redis');
