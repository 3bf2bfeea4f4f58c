import { type CommandRunner, type ScriptCall } from './connection/command-runner.js';

/** How often a release is sent again to serve the queue further; whoever waits goes on with it at its next poll. */
const MAX_SENT = 64;

/** A script stops early when very many in the queue are dead, and says that it is to be sent again: here, an acquire. */
export const isUnservedAcquire = (reply: readonly string[]): boolean => reply[0] === 'busy' && reply[8] === '1';

/** The same of a release. */
const isUnservedRelease = (reply: readonly string[]): boolean => reply[5] === '1';

/** Sends a release again, which changes nothing any more, until the queue is served; `reply` is the first one. */
export async function serveQueue(commands: CommandRunner, call: ScriptCall, reply: readonly string[]): Promise<void> {
  let last: readonly string[] | null = reply;
  for (let sent = 1; last && isUnservedRelease(last) && sent < MAX_SENT; sent += 1) {
    last = await commands.run(call).catch(() => null);
  }
}
