const SLOTS = 16_384;

/** CRC16 (XMODEM) of each byte on its own. */
const CRC_OF_BYTE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  return crc;
});

/** The cluster slot of a key: CRC16 (XMODEM) of its hash tag, or of the whole key when it has none. */
export function slotOf(key: string): number {
  const tag = tagOf(key);
  let crc = 0;
  // A cluster needs the slot for each command, and nearly all keys are ASCII, which needs no buffer.
  for (let i = 0; i < tag.length; i++) {
    const code = tag.charCodeAt(i);
    if (code > 0x7f) return slotOfBytes(Buffer.from(tag));
    crc = next(crc, code);
  }
  return crc % SLOTS;
}

const slotOfBytes = (bytes: Buffer): number => bytes.reduce(next, 0) % SLOTS;

const next = (crc: number, byte: number): number => ((crc << 8) & 0xffff) ^ CRC_OF_BYTE[(crc >> 8) ^ byte]!;

/** The text between the first `{` and the next `}`, unless it is empty. */
function tagOf(key: string): string {
  const open = key.indexOf('{');
  const close = open < 0 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}
