const SLOTS = 16_384;

/** The cluster slot of a key: CRC16 (XMODEM) of its hash tag, or of the whole key when it has none. */
export function slotOf(key: string): number {
  const tag = /^[^{]*\{([^}]+)\}/s.exec(key)?.[1] ?? key;
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return crc % SLOTS;
}
