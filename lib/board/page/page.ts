/** A padlock; browsers ask for an icon in any case. */
const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M4 7V5a4 4 0 0 1 8 0v2h1v8H3V7zm2 0h4V5a2 2 0 0 0-4 0z' fill='%232563a8'/%3E%3C/svg%3E";

/** The page. `base` is what its links begin with; nothing of a lock is in it. */
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
