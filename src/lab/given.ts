/**
 * Settings that a scenario's Clusters take from the directory of artifacts. The directory's
 * `kubernetes.yaml` names the version whose files it has and the settings that this version needs,
 * so one scenario serves every version. Pure.
 */

type Loose = Record<string, unknown>;

const isMap = (value: unknown): value is Loose =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Merges maps field by field; any other value of `over` replaces the value of `under`. */
function merged(under: unknown, over: unknown): unknown {
  if (!isMap(under) || !isMap(over)) return over;
  const result: Loose = { ...under };
  for (const [key, value] of Object.entries(over)) result[key] = merged(under[key], value);
  return result;
}

/** The documents, with `given` merged over `spec.kubernetes` of each Cluster that has one. */
export function withGiven(documents: readonly Loose[], given: Loose): Loose[] {
  return documents.map((document) => {
    const { kind, spec } = document;
    if (kind !== 'Cluster' || !isMap(spec) || !isMap(spec.kubernetes)) return document;
    return { ...document, spec: { ...spec, kubernetes: merged(spec.kubernetes, given) } };
  });
}
