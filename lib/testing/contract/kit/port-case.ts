import { type LockStoreSupport, type Scene } from './scene.js';

/** One promise of the port `LockStore`, and how to see that a store keeps it. */
export interface PortCase {
  /** The promise. */
  readonly name: string;
  /** Left out for a store that does not support all of this. */
  readonly needs?: readonly (keyof LockStoreSupport)[];
  readonly run: (scene: Scene) => Promise<void>;
}
