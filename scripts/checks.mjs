// Shared by the scripts that check something, whether they run by themselves or as a step of `npm test`.
import { realpathSync } from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

/** Whether the module of this URL is the script that was started, and was not imported. */
export const isStarted = (url) => Boolean(process.argv[1]) && realpathSync(process.argv[1]) === fileURLToPath(url);

/** Counts the results of checks: true if a check passed. */
export function countsOf(results) {
  const passed = results.filter(Boolean).length;
  return { passed, failed: results.length - passed };
}

/** Runs the checks of a script if it was started itself, and prints how many of them passed. */
export async function runIfStarted(url, check) {
  if (!isStarted(url)) return;
  const { passed, failed } = await check();
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
}
