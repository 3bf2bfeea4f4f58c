// Jest runs the files in the order of its arguments: those that take the least time first.
import process from 'node:process';

const placeOf = ({ path }) => process.argv.indexOf(path);

export default class OrderOfArguments {
  sort(tests) {
    return tests.toSorted((a, b) => placeOf(a) - placeOf(b));
  }

  shard(tests) {
    return tests;
  }

  allFailedTests(tests) {
    return tests;
  }

  cacheResults() {}
}
