// Is loaded before everything else in a process: the package finds only the library of clients there that LIBRARY names.
const Module = require('node:module');
const process = require('node:process');

const HIDDEN = { 'node-redis': ['ioredis', 'iovalkey'], iovalkey: ['ioredis', 'redis'] }[process.env.LIBRARY];

const { prototype } = Module;
const load = Reflect.get(prototype, 'require');

prototype.require = function requireUnlessHidden(name) {
  if (!HIDDEN.includes(name)) return Reflect.apply(load, this, [name]);
  throw Object.assign(new Error(`Cannot find module '${name}'`), { code: 'MODULE_NOT_FOUND' });
};
