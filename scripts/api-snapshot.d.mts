/** A code entry of package.json `exports`. */
export interface ApiEntry {
  /** What follows the package's name in an import, without the slash; `index` for the package itself. */
  readonly name: string;
  /** As package.json has it, such as `./testing`. */
  readonly specifier: string;
  /** Its file below lib, and below each build, without extension. */
  readonly file: string;
}

export interface EntryApi {
  readonly name: string;
  /** Its declarations, as the snapshot has them. */
  readonly text: string;
  /** The names that are there at run time. */
  readonly values: readonly string[];
  /** What its signatures mention and no entry exports. */
  readonly forgotten: readonly { readonly name: string; readonly neededBy: string }[];
}

/** The folder of the snapshots. */
export const SNAPSHOTS: string;

export function entries(): readonly ApiEntry[];

/** Reads the API of all entries from lib. */
export function readApi(): Promise<readonly EntryApi[]>;
