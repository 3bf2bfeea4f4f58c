import { ACTIONS } from './script/actions.js';
import { CONTROL } from './script/control.js';
import { DOM } from './script/dom.js';
import { HISTORY } from './script/history.js';
import { LISTS } from './script/lists.js';
import { ONE_LOCK } from './script/one-lock.js';
import { REPORTS } from './script/reports.js';
import { STREAM } from './script/stream.js';
import { TABLE } from './script/table.js';

/**
 * The script of the page, as one ES module. It is kept as text: browsers run it as it is, and neither a bundler nor a compiler of the
 * app has to find a file for it. test/unit/board/script.spec.ts checks it as TypeScript checks JavaScript.
 */
export const SCRIPT = [DOM, TABLE, STREAM, ACTIONS, LISTS, REPORTS, HISTORY, ONE_LOCK, CONTROL].join('\n');
