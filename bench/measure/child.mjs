// A process that runs one candidate. It does what its parent asks for, one task at a time.
import process from 'node:process';
import { openCandidate } from '../candidates/index.mjs';
import { TASKS } from './tasks.mjs';

let candidate;

const tasks = {
  ...TASKS,
  async open(_, { name, options }) {
    candidate = await openCandidate(name, options);
  },
  close: () => candidate.close(),
};

async function answer({ id, task, args }) {
  try {
    process.send({ id, result: await tasks[task](candidate, args) });
  } catch (error) {
    process.send({ id, error: error.stack });
  }
}

process.on('message', (message) => void answer(message));
process.on('disconnect', () => process.exit());
