export { arg, key, lua } from './lua.js';
export type { Hole, LuaScript } from './lua.js';
