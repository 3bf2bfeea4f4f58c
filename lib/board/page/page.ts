/** A padlock; browsers ask for an icon in any case. */
const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M4 7V5a4 4 0 0 1 8 0v2h1v8H3V7zm2 0h4V5a2 2 0 0 0-4 0z' fill='%232563a8'/%3E%3C/svg%3E";

/** The page. `base` is the prefix of its links; it contains no data of locks. */
export const pageText = (base: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Locks</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="${base}board.css">
<script type="module" src="${base}board.js"></script>
</head>
<body>
<a class="skip" id="skip" href="#main">Skip to the content</a>
<header>
<h1>Locks<span id="connection"></span></h1>
<nav id="views" aria-label="Views">
<a href="#/">Held</a>
<a href="#/waits">Waiting</a>
<a href="#/blocking">Blocking</a>
<a href="#/instances">Instances</a>
<a href="#/jobs">Jobs</a>
<a href="#/losses">Losses</a>
<a href="#/history">History</a>
</nav>
</header>
<div id="banner" role="alert" hidden><strong id="banner-title"></strong> <span id="banner-text"></span></div>
<div id="news" class="hidden" role="log" aria-live="polite" aria-label="News"></div>
<main id="main" tabindex="-1">
<noscript><p>This page needs JavaScript.</p></noscript>
</main>
<footer><p id="summary"></p></footer>
</body>
</html>
`;

/** The style sheet of the page. All pairs of colours have the contrast of WCAG AA. */
export const STYLE = `:root {
  --page: #fbfbfa;
  --panel: #ffffff;
  --text: #1c2126;
  --soft: #545d66;
  --line: #d5dade;
  --link: #1f5a99;
  --bar: #2563a8;
  --low: #a3431f;
  --track: #e3e7ea;
  --mark: #fff3c9;
  --bad-page: #fdecea;
  --bad-text: #8c1d18;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14181c;
    --panel: #1b2025;
    --text: #e6eaed;
    --soft: #a9b3bc;
    --line: #353d45;
    --link: #86bdf5;
    --bar: #6aa9ea;
    --low: #f09a76;
    --track: #303840;
    --mark: #4a3f14;
    --bad-page: #431b19;
    --bad-text: #ffc9c4;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto;
  padding: 0 1rem 2rem;
  max-width: 90rem;
  background: var(--page);
  color: var(--text);
  font: 1rem/1.45 system-ui, sans-serif;
}
[hidden] { display: none !important; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.skip { position: absolute; left: 1rem; top: -4rem; padding: 0.5rem 1rem; background: var(--panel); }
.skip:focus { top: 0.5rem; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0.25rem 2rem; padding: 1rem 0 0.5rem; }
h1 { margin: 0; font-size: 1.3rem; }
h2 { margin: 1rem 0 0.5rem; font-size: 1.15rem; overflow-wrap: anywhere; }
h3 { margin: 1.5rem 0 0.5rem; font-size: 1rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; }
a { color: var(--link); }
nav a { padding: 0.25rem 0; text-decoration: none; border-bottom: 2px solid transparent; }
nav a:hover { border-color: var(--line); }
nav a[aria-current] { color: var(--text); border-color: var(--bar); }
:focus-visible { outline: 3px solid var(--bar); outline-offset: 2px; }
main:focus, h2:focus { outline: none; }
#connection, footer, .soft { color: var(--soft); font-weight: normal; }
footer { margin-top: 1rem; font-size: 0.9rem; }
#banner, .notice { margin: 0.5rem 0; padding: 0.6rem 0.9rem; border-left: 4px solid currentColor; overflow-wrap: anywhere; }
#banner, .bad { background: var(--bad-page); color: var(--bad-text); }
.notice { background: var(--panel); }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; background: var(--panel); }
th, td { padding: 0.45rem 0.7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-size: 0.85rem; white-space: nowrap; }
tbody th { font-weight: normal; }
:is(th, td).number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.key, .code { font-family: ui-monospace, monospace; font-size: 0.92em; overflow-wrap: anywhere; }
td .key, th .key { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden; min-width: 8rem; }
progress { display: block; width: 7rem; height: 0.5rem; margin-top: 0.25rem; appearance: none; border: 0; background: var(--track); }
progress::-webkit-progress-bar { background: var(--track); }
progress::-webkit-progress-value { background: var(--bar); }
progress::-moz-progress-bar { background: var(--bar); }
progress.low::-webkit-progress-value { background: var(--low); }
progress.low::-moz-progress-bar { background: var(--low); }
tr.changed > * { background: var(--mark); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; margin: 0.5rem 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.tree, .tree ul { padding-left: 1.4rem; } .tree li { margin: 0.25rem 0; overflow-wrap: anywhere; }
small { display: block; color: var(--soft); }
.tools { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem 1rem; margin: 0.5rem 0; }
input, select, button { font: inherit; color: inherit; padding: 0.3rem 0.7rem; border: 1px solid var(--soft); border-radius: 4px; background: var(--panel); }
.tools > span { display: flex; align-items: center; gap: 0.4rem; } .tools input { width: 11rem; }
button { cursor: pointer; }
button.danger { color: var(--bad-text); border-color: currentColor; background: var(--bad-page); }
button:disabled { cursor: default; opacity: 0.7; }
dialog { max-width: 34rem; color: var(--text); background: var(--panel); border: 1px solid var(--soft); border-radius: 6px; overflow-wrap: anywhere; }
dialog::backdrop { background: rgb(0 0 0 / 50%); }
@media (prefers-reduced-motion: no-preference) {
  tr > * { transition: background-color 0.6s; }
}
@media (max-width: 45rem) {
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .tools > span { width: 100%; } .tools label { flex: 0 0 7rem; } .tools :is(input, select) { flex: 1; min-width: 0; }
  table, tbody, tr, th, td { display: block; }
  tr { padding: 0.5rem 0; border-bottom: 1px solid var(--line); }
  th, td { display: flex; gap: 0.7rem; padding: 0.15rem 0.7rem; border: 0; }
  th::before, td::before { content: attr(data-label); flex: 0 0 7rem; color: var(--soft); font-size: 0.85rem; }
}
`;
