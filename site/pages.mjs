// The pages of the docs site in reading order: each group has pages, by their file in `docs` (without `.md`) and their title.
// The pages of the API are made by typedoc; the decisions (`docs/adr`) are added where the site is built.
// `node scripts/docs-check.mjs` fails if a page of `docs` is missing here, or the other way round.

/** @type {readonly { title: string, pages: readonly (readonly [file: string, title: string])[] }[]} */
export const GROUPS = [
  {
    title: 'Start',
    pages: [
      ['README', 'Reading order'],
      ['why-a-lock', 'Why a lock, and when not'],
      ['quick-start', 'Quick start'],
      ['choosing', 'Choosing'],
      ['recipes', 'Recipes'],
      ['from-setnx', 'From SETNX to a lock'],
    ],
  },
  {
    title: 'Use it',
    pages: [
      ['options', 'Options'],
      ['errors', 'Errors'],
      ['keys', 'Keys'],
      ['nest', 'In a Nest app'],
      ['service', 'The service'],
      ['connections', 'Connections'],
      ['testing', 'Testing'],
    ],
  },
  {
    title: 'Know it',
    pages: [
      ['guarantees', 'Guarantees'],
      ['in-pictures', 'In pictures'],
      ['how-it-works', 'How it works'],
      ['glossary', 'Glossary'],
    ],
  },
  {
    title: 'Run it',
    pages: [
      ['production', 'Going to production'],
      ['troubleshooting', 'Troubleshooting'],
      ['cli', 'The command line'],
      ['board', 'The board'],
      ['performance', 'Performance'],
      ['capacity', 'Capacity'],
      ['security', 'Security'],
      ['observability', 'Health, metrics, traces'],
      ['compatibility', 'Compatibility'],
    ],
  },
  {
    title: 'Beside others',
    pages: [
      ['comparison', 'Comparison'],
      ['migration', 'Migration'],
    ],
  },
  {
    title: 'Build on it',
    pages: [
      ['writing-a-store', 'Writing a store'],
      ['verification', 'How it is tested'],
    ],
  },
];
