import * as peers from '../../lib/redis/client/optional-peers.cjs';

const LOADS = { ioredis: peers.loadIoredis, iovalkey: peers.loadIovalkey, 'node-redis': peers.loadNodeRedis };
const library = process.env['LIBRARY'] as keyof typeof LOADS | undefined;

describe('our own connections', () => {
  it('come from the library that the project names, or from ioredis', () => {
    const installed = Object.entries(LOADS).filter(([, load]) => load() !== null);
    expect(installed.map(([name]) => name)).toEqual(library ? [library] : Object.keys(LOADS));
  });
});
