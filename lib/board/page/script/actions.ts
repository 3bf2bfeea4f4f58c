/** What a reader can do. */
export const ACTIONS = String.raw`
/** The button that takes a lock away, after it has asked again. onDone gets a sentence about the outcome, and whether it is bad. */
function releaseButton(key, onDone) {
  const button = el('button', { type: 'button', class: 'danger' }, 'Force release…');
  button.addEventListener('click', async () => {
    const isWanted = await confirmed(
      'Take this lock away?',
      [printable(key), 'All its holders are told that they lost it, but their work may still be running. The next caller in the queue gets the lock.'],
      'Force release',
    );
    button.focus();
    if (!isWanted) return;
    button.disabled = true;
    const [text, isBad] = await forceRelease(key);
    button.disabled = false;
    onDone(text, isBad);
    tell(text);
  });
  return button;
}

async function forceRelease(key) {
  try {
    const answer = await fetch(urlOf('force-release'), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-lock-board': 'force-release' },
      body: JSON.stringify({ key }),
    });
    const body = await answer.json();
    if (!answer.ok) return ['Not released: ' + printable(String(body.error ?? body.message ?? answer.status)), true];
    return [body.wasHeld ? 'Released. Its holders are told.' : 'Nobody held it any more.', false];
  } catch (error) {
    return ['Not released: the app did not answer (' + printable(error.message) + ').', true];
  }
}

/** Asks; resolves to whether the answer is yes. The first button has the focus, and Escape means no. */
function confirmed(question, texts, yes) {
  return new Promise((resolve) => {
    const no = el('button', { type: 'button', autofocus: '' }, 'Cancel');
    const sure = el('button', { type: 'button', class: 'danger' }, yes);
    const [key, text] = texts;
    const dialog = el(
      'dialog',
      { 'aria-labelledby': 'question', 'aria-describedby': 'consequence' },
      el('h2', { id: 'question' }, question),
      el('p', { class: 'key', dir: 'ltr' }, key),
      el('p', { id: 'consequence' }, text),
      el('div', { class: 'tools' }, no, sure),
    );
    let isWanted = false;
    no.addEventListener('click', () => dialog.close());
    sure.addEventListener('click', () => {
      isWanted = true;
      dialog.close();
    });
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(isWanted);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
`;
