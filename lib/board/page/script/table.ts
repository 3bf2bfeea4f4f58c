/** Tables whose rows stay where they are when only their contents change. */
export const TABLE = String.raw`
/**
 * Makes a table. A column has a title and make(cell), which returns a function that shows an item in the cell. The first column
 * names the row. update(items) shows these items; idOf tells which row an item has.
 */
function makeTable(caption, columns, idOf) {
  const rows = new Map();
  const body = el('tbody', { role: 'rowgroup' });
  const titles = columns.map(({ title }) => el('th', { scope: 'col', role: 'columnheader' }, title));
  const head = el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, ...titles));
  const table = el('table', { role: 'table' }, el('caption', { class: 'hidden' }, caption), head, body);
  const element = el('div', { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: '0' }, table);
  const update = (items) => {
    const ids = new Set(items.map(idOf));
    for (const [id, row] of rows) {
      if (ids.has(id)) continue;
      row.element.remove();
      rows.delete(id);
    }
    let next = body.firstChild;
    for (const item of items) {
      const row = rows.get(idOf(item)) ?? makeRow(columns);
      rows.set(idOf(item), row);
      for (const show of row.shows) show(item, row.element);
      if (row.element === next) next = next.nextSibling;
      else body.insertBefore(row.element, next);
    }
    element.hidden = items.length === 0;
  };
  return { element, update };
}

function makeRow(columns) {
  const element = el('tr', { role: 'row' });
  const shows = columns.map(({ title, make, number }, at) => {
    const attributes = at === 0 ? { scope: 'row', role: 'rowheader' } : { role: 'cell' };
    const cell = el(at === 0 ? 'th' : 'td', { ...attributes, 'data-label': title, class: number ? 'number' : undefined });
    element.append(cell);
    return make(cell);
  });
  return { element, shows };
}

/** A column of texts. */
const textColumn = (title, textOf, options = {}) => ({
  title,
  ...options,
  make: (cell) => {
    const text = el('span', { class: options.code ? 'code' : undefined, dir: 'auto' });
    cell.append(text);
    return (item) => setText(text, printable(textOf(item)));
  },
});

/** A column of links to locks; without a key, there is none. */
const keyColumn = (title, keyOf) => ({
  title,
  make: (cell) => {
    const link = lockLink();
    cell.append(link);
    return (item) => {
      const key = keyOf(item);
      link.hidden = key === '';
      setLink(link, key);
    };
  },
});

/** A column of durations that go on; msOf may return null. */
const ageColumn = (title, msOf) => ({
  title,
  number: true,
  make: (cell) => {
    const text = el('span');
    cell.append(text);
    return (item) => {
      const ms = msOf(item);
      live(text, (passed) => setText(text, ms === null ? '–' : duration(ms + passed)));
    };
  },
});

/** A column of what is left of a time, then the text over; with a bar if there is anything to measure it by. */
const leftColumn = (title, msOf, over, fullOf = () => 0) => ({
  title,
  number: true,
  make: (cell) => {
    const text = el('span');
    const bar = el('progress', { 'aria-hidden': 'true', max: '1' });
    cell.append(text, bar);
    return (item) => {
      const [ms, full] = [msOf(item), fullOf(item)];
      bar.hidden = ms === null || !full;
      live(text, (passed) => {
        const left = ms === null ? 0 : Math.max(0, ms - passed);
        setText(text, ms === null ? '–' : left === 0 ? over : duration(left));
        if (full) bar.value = left / full;
        bar.classList.toggle('low', left < full / 4);
      });
    };
  },
});

/** Marks a row for a moment when what it shows belongs to another than before. */
const marking = (column, ownerOf) => ({
  ...column,
  make: (cell) => {
    const show = column.make(cell);
    let owner;
    return (item, row) => {
      show(item, row);
      const next = ownerOf(item);
      if (owner !== undefined && owner !== next) {
        row.classList.add('changed');
        setTimeout(() => row.classList.remove('changed'), 4000);
      }
      owner = next;
    };
  },
});
`;
