/**
 * Reads a setting. Decorators read their options when the class is defined, before a ConfigService exists; hence process.env.
 */
export const wholeNumber = (name: string, otherwise: number): number => {
  const value = Number(process.env[name] ?? otherwise);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new Error(`Expected ${name} to be a whole number of at least 1, got ${process.env[name]}.`);
};
