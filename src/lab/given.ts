/**
 * What a scenario's Clusters take from the directory of artifacts: `kubernetes.yaml` there says
 * which version it holds and what of the full specification follows from that, so that one scenario
 * serves every version. Pure.
 */

type Loose = Record<string, unknown>;

const isMap = (value: unknown): value is Loose =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** `over` wins; maps are merged, everything else is replaced. */
function merged(under: unknown, over: unknown): unknown {
  if (!isMap(under) || !isMap(over)) return over;
  const result: Loose = { ...under };
  for (const [key, value] of Object.entries(over)) result[key] = merged(under[key], value);
  return result;
}

/**
 * The documents with `given` merged over `spec.kubernetes` of each Cluster that has one; the others
 * as they are.
 */
export function withGiven(documents: readonly Loose[], given: Loose): Loose[] {
  return documents.map((document) => {
    const { kind, spec } = document;
    if (kind !== 'Cluster' || !isMap(spec) || !isMap(spec.kubernetes)) return document;
    return { ...document, spec: { ...spec, kubernetes: merged(spec.kubernetes, given) } };
  });
}
