import { type LockStoreSupport, type Scene } from './scene.js';

/** One promise of the port `LockStore`, and a check that a store keeps it. */
export interface PortCase {
  /** The promise. */
  readonly name: string;
  /** The case is left out for a store that does not support all of this. */
  readonly needs?: readonly (keyof LockStoreSupport)[];
  readonly run: (scene: Scene) => Promise<void>;
}
