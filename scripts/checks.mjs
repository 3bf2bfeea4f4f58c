// What the scripts have in common that check something, by themselves or as a step of `npm test`.
import { realpathSync } from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

/** Whether the module of this URL was started itself, rather than imported. */
export const isStarted = (url) => Boolean(process.argv[1]) && realpathSync(process.argv[1]) === fileURLToPath(url);

/** Counts checks that each say whether they passed. */
export function countsOf(results) {
  const passed = results.filter(Boolean).length;
  return { passed, failed: results.length - passed };
}

/** Runs a check whose script was started itself, and says how often it passed. */
export async function runIfStarted(url, check) {
  if (!isStarted(url)) return;
  const { passed, failed } = await check();
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
}
