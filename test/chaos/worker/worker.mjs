// One process of a worker: makes calls until its parent (../workers.ts) asks it to stop, and records what happens.
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Lane } from './lane.mjs';
import { openLog } from './log.mjs';
import { randomFrom } from './random.mjs';
import { startFires } from './fires.mjs';
import { startLeads } from './leads.mjs';
import { now, watchStandstills } from './standstills.mjs';
import { Transfers } from './transfers.mjs';
import { Turnstile } from './turnstile.mjs';

const LOOK_EVERY_MS = 20;

const config = JSON.parse(process.argv[2]);
const log = openLog(config.file, config.name);
process.on('unhandledRejection', (error) =>
  log('unhandled', { text: `unhandled rejection: ${error?.stack ?? error}` }),
);
process.on('uncaughtException', (error) => log('unhandled', { text: `uncaught exception: ${error?.stack ?? error}` }));
process.on('warning', (warning) => {
  // What measures a soak.
  if (warning.message.startsWith('v8.queryObjects()')) return;
  log('unhandled', { text: `warning: ${warning.stack ?? warning}` });
});

const { open } = await import(`./clients/${config.client}.mjs`);
const client = await open(config.connection, config);
const holds = new Set();
let questions = 0;
const answers = new Map();

const run = {
  client,
  open,
  config,
  holds,
  log,
  random: randomFrom(config.seed),
  /** All calls pass through it. */
  turnstile: new Turnstile(),
  isStopping: false,
  /** Asks the resource of the parent. */
  resource: (request) =>
    new Promise((resolve) => {
      questions += 1;
      answers.set(questions, resolve);
      process.send({ question: questions, ...request });
    }),
};

if (config.does.includes('transfers')) run.transfers = new Transfers(run);

const stopWatching = watchStandstills(
  (from, to) => log('lag', { from }, to),
  () => holds.forEach((hold) => hold.prove()),
);

process.on('message', (message) => {
  if (message.answer) answers.get(message.answer)?.(message);
  answers.delete(message.answer);
  if (message.parcel) run.transfers.receive(message.parcel);
  if (message.blockMs) block(message.blockMs);
  if (message.stop) run.isStopping = true;
  if (message.rest) void rest();
  if (message.goOn) run.turnstile.open();
  // An app that is closed while its calls wait and hold.
  if (message.close) void end();
});
// Its parent is gone, however it ended.
process.on('disconnect', () => !run.isClosed && process.exit());

/** Blocks the event loop, as a long computation does. */
function block(ms) {
  for (const until = now() + ms; now() < until;);
}

/** Timers and sockets. A wait for them is not among them, since it is over when this looks. */
const resources = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout' || name.startsWith('TCP'));

/** Measures this process between its calls. */
async function rest() {
  await run.turnstile.close();
  const { usage } = await import('./soak/usage.mjs');
  process.send({ usage: await usage() });
}

let ending;
const end = () => (ending ??= close());

async function close() {
  run.isStopping = true;
  log('closing');
  await client.close();
  await lanes;
  stopWatching();
  run.isClosed = true;
  process.disconnect();
  // What closes in this turn is no longer there in the next.
  await new Promise((resolve) => setImmediate(resolve));
  for (const until = now() + config.lingersMs; now() < until && resources().length > 0;) await sleep(LOOK_EVERY_MS);
  log('closed', { left: resources() });
}

const { soakLanes } = config.soak ? await import('./soak/lanes.mjs') : {};

log('ready', { does: config.does });
process.send({ ready: true });
const fires = client.runJob ? startFires(run) : undefined;
const lanes = Promise.all([
  fires,
  ...(config.does.includes('leads') ? startLeads(run) : []),
  ...(soakLanes?.(run) ?? []),
  ...Array.from({ length: config.lanes }, (_, i) => new Lane(run, `${config.name}:${i}`).run()),
]).then(() => run.transfers?.idle());
await lanes;
await end();
