// Runs groups of checks and prints in the last line what was checked: a process that ends early prints nothing.

export type Group = () => Promise<string[]>;

/** Runs the groups that the command line names; all without any. */
export function runGroups(groups: Record<string, Group>): void {
  const wanted = process.argv.slice(2);
  const chosen = Object.entries(groups).filter(([name]) => wanted.length === 0 || wanted.includes(name));
  run(chosen.map(([, group]) => group)).catch((error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  });
}

async function run(groups: Group[]): Promise<void> {
  const checked: string[] = [];
  for (const group of groups) checked.push(...(await group()));
  console.log(JSON.stringify({ node: process.versions['bun'] ?? process.version, checked }));
}
