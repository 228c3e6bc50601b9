/** What a machine would get, and why: decision, configuration, plan. */
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import { type AddonLibrary, addonsPart } from '../../cluster/objects/addons/library.ts';
import { previewText } from '../../cluster/plan/preview.ts';
import type { Roster } from '../../machines/roster.ts';
import type { RunningBootService } from '../../pxe/decide/boot-service.ts';
import { DHCP_PROGRAMS, dhcpSnippet } from '../../pxe/firmware/snippets.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import { machineNames } from '../../resources/membership.ts';
import { checkWithin } from '../access.ts';
import { type Parsed, reason, texts, word } from '../contract/contract.ts';
import { condition } from '../contract/documents.ts';
import { event } from '../contract/events.ts';
import { verdict } from '../contract/timeline.ts';
import { findMachine, macOf, placing } from '../find-machine.ts';
import { operation } from '../operation.ts';
import { conditionIn } from '../outlook.ts';
import { resolutionOf } from '../resolution.ts';
import type { ServedAgents } from '../served-agents.ts';
import { shownConfiguration } from '../shown-configuration.ts';
import { type HistoryDeps, verdictsOf } from '../verdicts.ts';

interface ExplainDeps extends HistoryDeps {
  readonly catalog: Pick<LiveCatalog, 'get' | 'list'>;
  readonly roster: Pick<Roster, 'get' | 'byMac' | 'heartbeats'>;
  readonly agents: Pick<ServedAgents, 'agentCluster' | 'waits'>;
  /** Explains what a machine would get, and renders its configuration. */
  readonly preview: Pick<RunningBootService, 'explain' | 'render' | 'bootTable'>;
  /** Add-ons of clusters, with their files. */
  readonly addons: AddonLibrary;
}

const decision = z.strictObject({
  kind: z.enum(['ignore', 'loader', 'script', 'discovery', 'disk', 'hold']),
  reason,
  loader: z.string().optional(),
  profile: z.string().optional(),
  image: z.string().optional(),
});

const explanation = z
  .strictObject({
    subject: z.string(),
    steps: z.array(z.strictObject({ step: z.string(), result: z.string(), reason: reason.optional() })),
    recognised: z.strictObject({
      kind: z.string(),
      matches: z.array(z.strictObject({ name: z.string(), score: z.number(), because: z.array(z.string()) })),
    }),
    profile: z.string().optional(),
    image: z.string().optional(),
    decision: decision.meta({ description: 'What its script does.' }),
    answers: z.record(z.string(), decision).meta({
      description: 'What DHCP answers, by the software that asks, e.g. `iPXE`.',
    }),
    condition: condition.optional(),
    phase: z.string().optional(),
    bootsWithoutReady: z.int(),
    session: z.string().optional(),
    remedy: z.string().optional().meta({ description: 'The command or change that ends a hold.' }),
    faults: z.array(z.string()),
    events: z.array(event.extend({ at: z.int() })),
    verdicts: z.array(verdict).meta({ description: 'What is wrong with its last boot.' }),
  })
  .meta({ id: 'Explanation' });
export type ExplanationView = Parsed<z.output<typeof explanation>>;

export const EXPLAIN = [
  operation(
    'GET /v1/explain',
    {
      access: 'view',
      costly: true,
      within: true,
      summary: 'Explains what a machine would get now and why.',
      query: z.strictObject({
        machine: word('Its name; this or `mac` is needed.'),
        mac: word('Its hardware address.'),
        network: word('The Network from which it boots.'),
        arch: z.enum(['x86_64', 'aarch64']).optional(),
        firmware: z.enum(['bios', 'uefi']).optional(),
      }),
      answer: explanation,
    },
    ({ query, within }, deps: ExplainDeps) => {
      const { machine, mac, ...rest } = query;
      if ((machine === undefined) === (mac === undefined))
        throw new MusterError('E_USAGE', 'name one machine: ?machine=NAME or ?mac=MAC');
      const address = mac === undefined ? undefined : macOf(mac);
      const named = machine ?? deps.roster.byMac(address!)?.name;
      checkWithin(within, named === undefined ? undefined : placing(deps)(named));
      const explained = deps.preview.explain({
        ...rest,
        ...(machine !== undefined && { machine }),
        ...(address !== undefined && { mac: address }),
      });
      const { subject } = explained;
      return {
        ...explained,
        ...conditionIn(deps.roster.get(subject), deps.roster, deps.agents.waits(subject)),
        verdicts: verdictsOf(subject, deps),
      };
    },
  ),
  operation(
    'GET /v1/networks/:network/snippet',
    {
      access: 'view',
      summary: 'Shows what another DHCP server has to be configured with, so that machines boot from here.',
      query: z.strictObject({
        for: z.enum(DHCP_PROGRAMS).meta({ description: 'The DHCP server that the text is for.' }),
      }),
      answer: z.strictObject({ text: z.string() }),
    },
    ({ params, query }, { preview }: Pick<ExplainDeps, 'preview'>) => ({
      text: dhcpSnippet(query.for, preview.bootTable(params.network)),
    }),
  ),
  operation(
    'GET /v1/render/:machine',
    {
      access: 'view',
      costly: true,
      summary: "Shows a machine's first-boot configuration, with the origin of each value.",
      answer: z.strictObject({
        machine: z.string(),
        format: z.string(),
        files: texts,
        kernelArguments: z.array(z.string()),
        merged: z.looseObject({}),
        provenance: z.record(
          z.string(),
          z.strictObject({ layer: z.string(), document: z.string(), path: z.string() }),
        ),
      }),
    },
    ({ params }, deps: Pick<ExplainDeps, 'roster' | 'preview'>) => {
      const { name } = findMachine(params.machine, deps);
      return shownConfiguration(name, deps.preview.render(name));
    },
  ),
  operation(
    'GET /v1/machines/:name/plan',
    {
      access: 'view',
      costly: true,
      summary:
        'Shows the plan that a machine of a cluster gets once it has its certificates, as text without secrets.',
      answer: z.strictObject({ machine: z.string(), cluster: z.string(), plan: z.string() }),
    },
    async ({ params: { name } }, deps: Pick<ExplainDeps, 'catalog' | 'addons'>) => {
      const cluster = deps.catalog
        .list('Cluster')
        .find(({ document: { spec } }) => spec.kubernetes && machineNames(spec.kubernetes).has(name));
      if (cluster === undefined) {
        const spec = deps.catalog.get('Cluster', name)?.document.spec.kubernetes;
        throw new MusterError(
          'E_NOT_FOUND',
          spec === undefined
            ? `no Cluster gives the machine "${name}" a role; \`muster get clusters\` lists clusters`
            : `"${name}" is a Cluster, but plans belong to machines: write \`muster cluster plan ${spec.controlPlanes[0]}\`, or \`muster artifacts plan ${name}\` for the files that it needs`,
        );
      }
      const { resolved, faults } = resolutionOf(deps, cluster.document.metadata.name);
      const machine = resolved?.machines.find((one) => one.name === name);
      if (resolved === undefined || machine === undefined)
        throw new MusterError('E_CLUSTER', faults[0]?.fault.message ?? `${name} is left out of its cluster`, {
          faults: faults.map(({ fault }) => fault),
        });
      const { ready } = addonsPart(resolved.name, await deps.addons.of(resolved));
      return { machine: name, cluster: resolved.name, plan: previewText(resolved, machine, ready) };
    },
  ),
] as const;
