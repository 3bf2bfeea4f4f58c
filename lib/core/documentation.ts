/** The package ships no `docs` and has no URL yet: a text names a section by its heading and the title of its page. */
const DOCUMENTATION = 'the documentation of nestjs-redis-lock';

/** The sections to which texts refer, each with its page. */
export const SECTIONS = {
  rights: { page: 'Security', heading: 'A user for locks only' },
  tls: { page: 'Security', heading: 'TLS' },
} as const;

/** Names a section, for errors and findings. */
export function sectionText(name: keyof typeof SECTIONS): string {
  const { page, heading } = SECTIONS[name];
  return `"${heading}" on the page "${page}" of ${DOCUMENTATION}`;
}
