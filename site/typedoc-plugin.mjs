// What the pages of the API need in addition to the options of typedoc.
import { Converter, ReflectionKind } from 'typedoc';
import { NAMES } from './entries.mjs';

const isInternal = ({ comment, signatures = [] }) =>
  [comment, ...signatures.map((signature) => signature.comment)].some((one) =>
    one?.summary[0]?.text.startsWith('Internal:'),
  );

/** Names each module as users import it, and leaves out what a docstring calls internal. */
export function load({ converter }) {
  converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    for (const module of project.getReflectionsByKind(ReflectionKind.Module)) {
      module.name = NAMES.get(module.name) ?? module.name;
    }
    const members = ReflectionKind.ClassMember | ReflectionKind.Constructor;
    for (const member of project.getReflectionsByKind(members)) {
      if (isInternal(member)) project.removeReflection(member);
    }
  });
}
