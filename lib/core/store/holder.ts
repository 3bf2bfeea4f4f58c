/** Who holds a lock, read from the text that was sent for people: `host:pid Class.method`. */
export function readHolderText(text: string): {
  readonly host: string;
  readonly pid: number;
  readonly where: string;
} {
  const [instance = '', ...where] = text.split(' ');
  const colon = instance.lastIndexOf(':');
  return {
    host: instance.slice(0, Math.max(colon, 0)),
    pid: Number(instance.slice(colon + 1)),
    where: where.join(' '),
  };
}
