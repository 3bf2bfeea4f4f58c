// Checks the English of documents, pages, comments and string literals (error texts, test titles): `node scripts/english.mjs [PATH…]`.
// Without a path, it checks all files. It skips quotes: in Markdown inline code, `> …`, text in double quotes and blocks of output.
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import process from 'node:process';
import { countsOf, report, root, runChecks } from './checks.mjs';

/** Each pattern with what to write instead. */
const PATTERNS = [
  [/(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|later\b|such\b|more than\b)/, 'is not a …, does not …'],
  [/\b(?:so|as) many\b/, 'a number, "at most n", "the same number of"'],
  [/\bfor people\b/, 'for users, for operators; or leave it out'],
  [
    /\bof (?:ours|yours|theirs|(?:its|your|their|our) own\b(?! (?:process|module|lock|hold|propert)))/,
    'our …, its own …',
  ],
  [/\b(?:whoever|nobody|somebody|everybody|anybody)\b/, 'the subject: a caller, no process, each waiter'],
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
  [/\bsignals? (?:that |of \w+ )?(?:fires?|fired)\b|\bfires? (?:the|its) signals?\b/, 'the signal is aborted'],
  [/(?<=[.:;] )(?:read|tested|checked|measured) (?:was|were)\b|\bas of an?\b/, 'the subject first; such as'],
  [/\bhas not(?=[.,;:)])/, 'does not support …'],
  [/(?<![/-])\brights\b(?!\.spec|\)| ok)|\ba right\b/, 'permissions'],
  [/, either(?=[.;:)])/, 'either, without a comma'],
];

/** Files, and blocks in Markdown, in which comments and strings are prose. */
const CODE = /^(?:[cm]?[tj]s|lua|qnt|c|jsonc?)\b/;
/** Blocks in Markdown that are output. */
const OUTPUT = /^(?:text|console)?$/;
/** Files that are prose but for their markup. */
const TEXT = /^(?:md|html|vue|ya?ml|css)$/;

/** This list and its spec, and what tools write. */
const NOT_OURS = /^(?:scripts|test\/scripts)\/english\.\w|(?:^|\/)package-lock\.json$/;

const extensionOf = (path) => path.slice(path.lastIndexOf('.') + 1);
const blank = (text) => text.replace(/[^\n]/g, ' ');
const COMMENTS_AND_STRINGS = /(\/\/.*|\/\*[^]*?\*\/|--.*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`)/;
/** In a string or a comment, what is not prose: expressions, code in comments, constants, and strings of one word. */
const QUOTED = /\$\{[^}]*\}|(?<=^\/.*)`[^`]*`|\b[A-Z]{4,}\b|^(['"`])(?:\$\{[^}]*\}|[^\s'"`])*\1$/gs;

/** The text of a file in which only prose is left. */
function proseOf(path, text) {
  if (path.endsWith('.md')) {
    // From the first fence of a block to its last one: the last one would otherwise begin a block.
    const prose = text.replace(
      /^( *)(`{3,})(.*)\n([^]*?)^\1\2 *$|^ *>.*/gm,
      (block, _indent, _fence, language, code) =>
        language === undefined || OUTPUT.test(language) ? blank(block) : `\n${proseOf(`.${language}`, code)}`,
    );
    return prose.replace(/(?<!`)(`+)(?!`)(?:(?!\n\n)[^])*?[^`]\1(?!`)|(?<=[\s(])"[^"\n]+"/g, blank);
  }
  if (!CODE.test(extensionOf(path))) return text;
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
const isFile = (path) => statSync(path, { throwIfNoEntry: false })?.isFile();
// A file that git does not know is checked when it is named.
const listed =
  paths.length > 0 && paths.every(isFile)
    ? paths
    : execFileSync('git', ['ls-files', '-co', '--exclude-standard', ...paths], { encoding: 'utf8' }).split('\n');
const isProse = (path) => CODE.test(extensionOf(path)) || TEXT.test(extensionOf(path));
const flaws = listed.filter((path) => isProse(path) && !NOT_OURS.test(path)).flatMap(hitsOf);
await runChecks(() => countsOf([report('the English', flaws)]));
