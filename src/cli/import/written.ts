/** Checks documents that an import makes as `muster validate` would, before they have an effect. */
import { checkAll } from '../../cluster/resolve/check-documents.ts';
import { validate } from '../../resources/document.ts';
import { reconcile } from '../../resources/file-layer.ts';
import { allFaults } from '../documents/validate.ts';
import { yamlText } from '../output.ts';
import type { Draft } from './csv.ts';

/** What has to be corrected before the documents can be applied, each as a sentence. */
export function writtenFaults(drafts: readonly Draft[]): readonly string[] {
  const checked = drafts.map((draft) => ({ draft, ...validate(JSON.parse(JSON.stringify(draft))) }));
  const single = checked.flatMap((one) =>
    one.ok
      ? []
      : one.faults.map(
          ({ message, path }) =>
            `${one.draft.kind} ${one.draft.metadata.name}: ${path === undefined ? '' : `${path}: `}${message}`,
        ),
  );
  // A document for itself, so that none is judged by a fault of another.
  const files = checked
    .filter(({ ok }) => ok)
    .map(({ draft }) => [`${draft.kind}/${draft.metadata.name}`, { text: yamlText(draft) }] as const);
  const result = reconcile({
    before: new Map(),
    changes: new Map(files),
    api: new Map(),
    known: [],
    extra: (set) => checkAll(set, undefined),
  });
  const between = allFaults(result)
    // What the documents refer to may be on the server.
    .filter(({ code }) => code !== 'E_REFERENCE')
    .map(({ path, message }) => (path === undefined ? message : `${path}: ${message}`));
  return [...single, ...new Set(between)];
}
