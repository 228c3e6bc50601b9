/** Warnings about names in configurations: hostnames that repeat, and units that cannot start. */
import { type Candidate, type CandidateSet, type CrossFault, placeOf, report } from './candidate.ts';
import type { NodeConfig } from './nodeconfig.ts';

/** Adds the warnings to `found`. */
export function checkNames(candidates: CandidateSet, found: CrossFault[]): void {
  checkHostnames(candidates, found);
  for (const kind of ['Cluster', 'Profile', 'Machine'] as const)
    for (const candidate of candidates[kind].values()) checkUnits(candidate, candidate.document.spec, found);
}

/** Two machines with one name confuse DNS, logs and kubelets. A template gives each its own. */
function checkHostnames({ Machine }: CandidateSet, found: CrossFault[]): void {
  const holders = new Map<string, Candidate<'Machine'>>();
  for (const machine of Machine.values()) {
    const { metadata, spec } = machine.document;
    const hostname = spec.config?.hostname ?? metadata.name;
    if (hostname.includes('${')) continue;
    const named = Machine.get(hostname);
    const holder = holders.get(hostname) ?? (named === machine || !keepsName(named) ? undefined : named);
    if (holder === undefined) holders.set(hostname, machine);
    else if (holder !== machine && spec.config?.hostname !== undefined)
      report(
        found,
        machine,
        ['spec', 'config', 'hostname'],
        `${hostname} is the hostname of ${placeOf(holder)} as well; give each machine its own`,
        { severity: 'warning', other: holder },
      );
  }
}

const keepsName = (machine: Candidate<'Machine'> | undefined): boolean =>
  machine !== undefined && machine.document.spec.config?.hostname === undefined;

function checkUnits(
  candidate: Candidate,
  { config }: { readonly config?: NodeConfig | undefined },
  found: CrossFault[],
): void {
  for (const [n, { name, enabled, contents = '' }] of (config?.units ?? []).entries()) {
    if (enabled !== true || !/@\.[a-z]+$/.test(name)) continue;
    const path = ['spec', 'config', 'units', n, 'enabled'];
    const instance = /^DefaultInstance=(\S+)/m.exec(contents)?.[1] ?? 'INSTANCE';
    report(
      found,
      candidate,
      path,
      `${name} is a template, which cannot be started; enable an instance of it: a unit "${name.replace('@.', `@${instance}.`)}" with enabled: true, beside the template without it`,
      { severity: 'warning' },
    );
  }
}
