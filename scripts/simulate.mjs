// Runs the library in simulated processes, networks and servers, in virtual time: see test/simulation/README.md.
import process from 'node:process';
import { createLoader } from '../test/simulation/library/typescript-loader.mjs';

const { runCommand } = createLoader()('test/simulation/command.ts');
process.exitCode = await runCommand(process.argv.slice(2));
