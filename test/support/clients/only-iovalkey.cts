// Stands for lib/redis/client/optional-peers.cts in an app that has only iovalkey.
export const loadIoredis = (): unknown => null;
export const loadIovalkey = (): unknown => require('iovalkey');
export const loadNodeRedis = (): unknown => null;
