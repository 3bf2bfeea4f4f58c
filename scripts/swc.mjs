/**
 * The settings of tsconfig.json for swc, which does not check types; `npm run typecheck` does.
 * @param {'es6' | 'commonjs'} type the kind of modules to compile to
 * @returns {import('@swc/core').Options}
 */
export const swcOptions = (type) => ({
  jsc: {
    target: 'es2022',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: true },
    // Messages and logs name classes.
    keepClassNames: true,
  },
  module: { type },
});
