/** A promise that the test resolves: `await gate.opened` waits until the test calls `gate.open()`. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}
