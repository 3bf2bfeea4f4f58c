// Checks the English of documents, comments and string literals (error texts, test titles): `node scripts/english.mjs [PATH…]`.
// Without a path, it checks the paths in CHECKED; `--count` counts the hits of each folder. It skips quotes: in Markdown inline code,
// `> …`, text in double quotes and blocks of output.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { countsOf, report, root, runChecks } from './checks.mjs';

const FOLDERS = [
  'architecture',
  'cli',
  'clients',
  'model',
  'nest',
  'package',
  'scripts',
  'support',
  'types',
  'unit',
].map((name) => `test/${name}`);
/** Specs that quote texts of lib which are not clean yet. */
const QUOTING = [
  'nest/module/options',
  'unit/core/printable',
  'unit/redis/client/plain-options',
  'unit/redis/redis-lock-store',
  'unit/testing/contract/bad-stores',
];
const SKIPPED = [
  'examples/sqlite-store/test/processes.spec.ts',
  'test/nest/board',
  'test/support/topologies/topology.ts',
  ...QUOTING.map((name) => `test/${name}.spec.ts`),
];
/** Folders of lib whose texts are not clean yet. */
const NOT_YET = ['lib/board'];
/** What is clean, and stays clean. */
const CHECKED = [
  '*.md',
  'lib',
  'bench',
  'examples',
  'scripts',
  'site',
  '.github',
  ...FOLDERS,
  ...[...NOT_YET, ...SKIPPED].map((path) => `:!${path}`),
];

/** Each pattern with what to write instead. */
const PATTERNS = [
  [/(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|later\b|such\b|more than\b)/, 'is not a …, does not …'],
  [/\b(?:so|as) many\b/, 'a number, "at most n", "the same number of"'],
  [/\bfor people\b/, 'for users, for operators; or leave it out'],
  [
    /\bof (?:ours|yours|theirs|(?:its|your|their|our) own\b(?! (?:process|module|lock|hold|propert)))/,
    'our …, its own …',
  ],
  [/\b(?:whoever|nobody|somebody|everybody)\b/, 'the subject: a caller, no process, each waiter'],
  [/(?<!\.)\b(?:tells?|told|telling)\b(?!\(| = )/, 'report, notify, describe, distinguish'],
  [/\bmend(?:s|ed|ing)?\b|\bjudg(?:e|es|ed|ing)\b/, 'fix; check, decide'],
  [/\b(?:says?|said) (?:so|who|what|how|which|whether|where|when|why)\b/, 'describe, list, explain, name'],
  [/\b(?:knows?|knew) (?:of|no|nothing)\b/, 'has, supports, does not have'],
  [/(?<=\w), too\b(?! \w)/, 'also, before the verb'],
  [/\bfor ever\b|\bany more\b(?! (?:than|\w+s)\b)/, 'forever; no longer'],
  [/\bin silence\b|\bin the midst\b|\bby chance\b/, 'silently; in the middle; at random, accidentally'],
  [/\b(?:go|goes|went|gone|going) on\b/, 'continue'],
  [/\bbesides?\b/, 'next to, with, at the same time as; in addition'],
  [/\banew\b|\ball the same\b/, 'again; nevertheless'],
  [/\bstands? (?:here|there|in|at|for ever)\b/, 'is'],
  [/\bin the place of\b|\bwithout a look\b/, 'instead of; without reading'],
];

const blank = (text) => text.replace(/[^\n]/g, ' ');
const COMMENTS_AND_STRINGS = /(\/\/.*|\/\*[^]*?\*\/|--.*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`)/;
/** In a string or a comment, what is not prose: expressions, code in comments, constants, and strings of one word. */
const QUOTED = /\$\{[^}]*\}|(?<=^\/.*)`[^`]*`|\b[A-Z]{4,}\b|^(['"`])(?:\$\{[^}]*\}|[^\s'"`])*\1$/gs;

/** The text of a file in which only prose is left. */
function proseOf(path, text) {
  if (path.endsWith('.md')) {
    const prose = text.replace(/^( *)(`{3,})(?:text|console)?\n[^]*?^\1\2 *$|^ *>.*/gm, blank);
    return prose.replace(/(?<!`)(`+)(?!`)(?:(?!\n\n)[^])*?[^`]\1(?!`)|(?<=[\s(])"[^"\n]+"/g, blank);
  }
  const parts = text.split(path.endsWith('.lua') ? /(--.*)/ : COMMENTS_AND_STRINGS);
  const prose = parts.map((part, i) => (i % 2 === 0 ? blank(part) : part.replace(QUOTED, blank)));
  // The prefix of a comment line only separates words.
  return prose.join('').replace(/(?<=\n *)(?:\*(?!\/)|\/\/|--)/g, blank);
}

function hitsOf(path) {
  const prose = proseOf(path, readFileSync(path, 'utf8'));
  const lineOf = (index) => prose.slice(0, index).split('\n').length;
  return PATTERNS.flatMap(([pattern, better]) => {
    const hits = prose.matchAll(new RegExp(pattern.source.replaceAll(' ', '\\s+'), 'gi'));
    return [...hits].map(({ 0: hit, index }) => `${path}:${lineOf(index)}: "${hit.replace(/\s+/g, ' ')}": ${better}`);
  });
}

process.chdir(root);
const paths = process.argv.slice(2).filter((one) => !one.startsWith('-'));
const count = process.argv.includes('--count');
const listed = ['ls-files', '-co', '--exclude-standard', ...(paths.length > 0 || count ? paths : CHECKED)];
const files = execFileSync('git', listed, { encoding: 'utf8' }).match(/.+\.(?:md|ts|cts|mts|mjs|lua)$/gm) ?? [];
const flaws = files.filter((path) => path !== 'scripts/english.mjs').flatMap(hitsOf);
if (count) {
  const folders = {};
  for (const [folder] of flaws.map((flaw) => /^[^/:]+(\/[^/:]+)?/.exec(flaw)))
    folders[folder] = (folders[folder] ?? 0) + 1;
  console.table(folders);
} else await runChecks(() => countsOf([report('the English', flaws)]));
