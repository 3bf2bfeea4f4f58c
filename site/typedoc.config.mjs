// The API reference from the docstrings: pages that VitePress builds with the others.
import { join } from 'node:path';
import { FILES, root } from './entries.mjs';

/** @type {import('typedoc').TypeDocOptions} */
export default {
  plugin: ['typedoc-plugin-markdown', join(root, 'site', 'typedoc-plugin.mjs')],
  entryPoints: FILES,
  tsconfig: join(root, 'tsconfig.json'),
  out: join(root, 'site', 'pages', 'api'),
  readme: 'none',
  name: 'API',
  // The type check finds them.
  skipErrorChecking: true,
  excludePrivate: true,
  excludeExternals: true,
  disableSources: true,
  // Public signatures use types that users never write.
  validation: { notExported: false, invalidLink: true, notDocumented: false },
  treatWarningsAsErrors: true,
  treatValidationWarningsAsErrors: true,
  outputFileStrategy: 'members',
  entryFileName: 'index',
  hidePageHeader: true,
  hideBreadcrumbs: true,
  excludeScopesInPaths: true,
  useCodeBlocks: true,
  parametersFormat: 'table',
  interfacePropertiesFormat: 'table',
  typeDeclarationFormat: 'table',
  logLevel: 'Warn',
};
