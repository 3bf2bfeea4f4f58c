/** The name of this process in reports and rows. The runner names its instances A, B and C. */
export const INSTANCE = process.env['INSTANCE'] ?? `pid ${process.pid}`;
