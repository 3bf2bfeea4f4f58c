import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The text as users write it: with the names under which they import the package. */
const asUsersWriteIt = (text: string): string =>
  text
    .replaceAll(/'[./]*\/lib\/testing\/index\.js'/g, "'nestjs-redis-lock/testing'")
    .replaceAll(/'[./]*\/lib\/index\.js'/g, "'nestjs-redis-lock'")
    .trim();

/** The files of a folder that a document shows, and their text. */
export const shownFiles = (folder: string, prefix: string): readonly (readonly [name: string, code: string])[] =>
  readdirSync(folder)
    .filter((name) => name.startsWith(prefix))
    .map((name) => [name, asUsersWriteIt(readFileSync(join(folder, name), 'utf8'))] as const);

/** The TypeScript of a document, block by block. */
export const blocksOf = (document: string): readonly string[] =>
  [...readFileSync(document, 'utf8').matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code!.trim());
