/** What this process is called in reports and rows; the runner names its instances A, B and C. */
export const INSTANCE = process.env['INSTANCE'] ?? `pid ${process.pid}`;
