// The pages of the docs site in reading order: each group has pages, by their file in `docs` (without `.md`) and their title.
// The pages of the API are made by typedoc; the decisions (`docs/adr`) are added where the site is built.
// `node scripts/docs-check.mjs` fails if a page of `docs` is missing here, or vice versa.

/** The present path of a page, by its former path. The site redirects from there. */
export const MOVED = { README: 'all-pages' };

/** For contributors: the last group of the site, with the decisions. */
export const INTERNALS = 'Internals';

/** @type {readonly { title: string, pages: readonly (readonly [file: string, title: string])[] }[]} */
export const GROUPS = [
  {
    title: 'Start',
    pages: [
      ['README', 'All pages'],
      ['quick-start', 'Quick start'],
      ['cron', 'Run a cron job once'],
      ['choosing', 'Choosing'],
      ['recipes', 'Recipes'],
      ['faq', 'FAQ'],
      ['why-a-lock', 'Why a lock, and when not'],
      ['alternatives', 'Alternatives'],
    ],
  },
  {
    title: 'Use',
    pages: [
      ['options', 'Options'],
      ['errors', 'Errors'],
      ['keys', 'Keys'],
      ['nest', 'In a Nest app'],
      ['service', 'The service'],
      ['connections', 'Connections'],
      ['testing', 'Testing'],
      ['writing-a-store', 'Writing a store'],
    ],
  },
  {
    title: 'Concepts',
    pages: [
      ['guarantees', 'Guarantees'],
      ['waiting', 'Order and waiting'],
      ['in-pictures', 'In pictures'],
      ['from-setnx', 'From SETNX to a lock'],
      ['glossary', 'Glossary'],
    ],
  },
  {
    title: 'Other libraries',
    pages: [
      ['comparison', 'Comparison'],
      ['migration', 'Migration'],
    ],
  },
  {
    title: 'Operate',
    pages: [
      ['production', 'Going to production'],
      ['deploying', 'Deploying'],
      ['managed-redis', 'Managed Redis'],
      ['teams', 'Several teams on one Redis'],
      ['security', 'Security'],
      ['cost', 'What a lock costs'],
      ['capacity', 'Capacity'],
      ['performance', 'Performance'],
      ['redis-down', 'When Redis is down'],
      ['upgrading', 'Upgrading'],
      ['compatibility', 'Compatibility'],
    ],
  },
  {
    title: 'Observe and repair',
    pages: [
      ['observability', 'Health, metrics, traces'],
      ['board', 'The board'],
      ['cli', 'The command line'],
      ['log-messages', 'Log messages'],
      ['troubleshooting', 'Troubleshooting'],
      ['runbooks', 'Runbooks'],
    ],
  },
  {
    title: INTERNALS,
    pages: [
      ['how-it-works', 'How it works'],
      ['verification', 'How it is tested'],
      ['proofs', 'Proofs'],
      ['failure-modes', 'Failure modes'],
      ['performance-laboratory', 'Performance laboratory'],
    ],
  },
];
