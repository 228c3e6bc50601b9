/** BMCs: how they are reached, Muster's own accounts on them, and new passwords for these. */
import { z } from 'zod';
import { names } from '../../base/body.ts';
import { MusterError } from '../../base/errors.ts';
import { formatIpv4 } from '../../base/ipv4.ts';
import { OWN_USER } from '../../bmc/account.ts';
import { mustManage } from '../../bmc/upkeep.ts';
import type { Inventories } from '../../machines/inventories.ts';
import type { LeaseBook } from '../../pxe/dhcp/leases.ts';
import { dryRun, labelledPart, listOf, type Parsed, time, word } from '../contract/contract.ts';
import { labelsOf, ofClusters } from '../find-machine.ts';
import { partOf } from '../listing.ts';
import { operation } from '../operation.ts';
import { checked, chosen, nameOf, type PowerDeps, stamp } from './power.ts';

const bmcView = z.strictObject({
  machine: z.string(),
  address: z.string(),
  protocol: z.string().meta({ description: 'What it speaks; auto: nobody has tried yet.' }),
  user: z.string().optional().meta({ description: 'The account by which Muster logs in.' }),
  managed: z.enum(['beside', 'alone']).optional(),
  since: time.optional().meta({ description: 'When Muster made the password of its own account.' }),
  due: z
    .strictObject({ by: z.string(), at: time })
    .optional()
    .meta({ description: 'A new password was ordered, and is not there yet.' }),
  fault: z
    .strictObject({ code: z.string(), text: z.string(), times: z.int(), at: time })
    .optional()
    .meta({ description: 'What could not be done for the account.' }),
  pin: z.string().optional().meta({ description: 'SHA-256 of the certificate that counts.' }),
});
export type BmcView = Parsed<z.output<typeof bmcView>>;
const list = listOf('BmcList', bmcView);

interface FindDeps extends PowerDeps {
  readonly inventories: Pick<Inventories, 'list'>;
  readonly leases: Pick<LeaseBook, 'list'>;
}

function viewOf(machine: string, { power }: Pick<PowerDeps, 'power'>) {
  const reach = power.reach(machine)!;
  const { own, due, fault, protocol, pin } = power.known(machine) ?? {};
  const { managed, user: given } = reach.credentials ?? {};
  const user = own && managed ? OWN_USER : given;
  const counts = reach.certificate?.sha256 ?? pin;
  return {
    ...{ machine, address: reach.address, protocol: protocol ?? reach.protocol },
    ...(user !== undefined && { user }),
    ...(managed && { managed }),
    ...(managed && own && { since: stamp(own.since) }),
    ...(due && { due: { by: due.by, at: stamp(due.at) } }),
    ...(fault && {
      fault: { code: fault.code, text: fault.message, times: fault.times, at: stamp(fault.at) },
    }),
    ...(counts !== undefined && { pin: counts }),
  };
}

const foundBmc = z.strictObject({
  machine: z.string(),
  address: z.string().meta({ description: 'Of its BMC, as the machine reports it: its claim.' }),
  from: z.enum(['agent', 'discovery']).meta({
    description:
      '`agent`: sent with the certificate of the machine. `discovery`: sent over plain HTTP, so that anybody on the segment may have written it.',
  }),
  reportedAt: time,
  document: z.enum(['none', 'same', 'other']).meta({
    description: 'Whether the document of the machine names a BMC, and whether at this address.',
  }),
  others: z.array(z.string()).optional().meta({
    description: 'Other machines that report the same address, or whose documents name it.',
  }),
  mac: z.string().optional().meta({ description: 'Who has a lease of the address.' }),
});
const foundList = listOf('FoundBmcList', foundBmc);

/** What machines report of their BMCs, beside what documents say. */
function foundIn(deps: FindDeps, isMine: ReturnType<typeof ofClusters>) {
  const reported = deps.inventories
    .list()
    .filter(({ machine }) => deps.roster.get(machine) !== undefined && isMine(machine));
  const leases = new Map(
    deps.leases
      .list(undefined)
      .filter(({ lease }) => isMine(lease?.machine))
      .map(({ address, mac }) => [formatIpv4(address), mac]),
  );
  const users = new Map<string, Set<string>>();
  const uses = (address: string | undefined, machine: string): void => {
    if (address !== undefined) users.set(address, (users.get(address) ?? new Set()).add(machine));
  };
  for (const { machine, inventory } of reported) uses(inventory.bmc?.address, machine);
  for (const { name } of deps.roster.list()) if (isMine(name)) uses(deps.power.reach(name)?.address, name);
  return reported.flatMap(({ machine, at, claimed, inventory: { bmc } }) => {
    if (bmc === undefined) return [];
    const { address } = bmc;
    const named = deps.power.reach(machine)?.address;
    const others = [...users.get(address)!].filter((one) => one !== machine);
    const mac = leases.get(address);
    return {
      ...{ machine, address, from: claimed ? ('discovery' as const) : ('agent' as const) },
      reportedAt: stamp(at),
      document:
        named === undefined ? ('none' as const) : named === address ? ('same' as const) : ('other' as const),
      ...(others.length > 0 && { others }),
      ...(mac !== undefined && { mac }),
    };
  });
}

export const BMCS = [
  operation(
    'GET /v1/bmcs/found',
    {
      access: 'view',
      within: true,
      costly: true,
      summary: 'Lists the BMCs that machines report of themselves, beside what their documents say.',
      query: z.strictObject(labelledPart),
      answer: foundList,
    },
    ({ query, ...asked }, deps: FindDeps) => {
      const part = partOf(
        query,
        foundIn(deps, ofClusters(asked, deps)),
        ({ machine }) => machine,
        ({ machine }) => labelsOf(deps)(machine),
      );
      return { kind: 'FoundBmcList' as const, ...part };
    },
  ),
  operation(
    'GET /v1/bmcs',
    {
      access: 'view',
      within: true,
      costly: true,
      summary:
        'Lists the BMCs of machines: how Muster logs in, and how old the passwords of its own accounts are.',
      query: z.strictObject(labelledPart),
      answer: list,
    },
    ({ query, ...asked }, deps: PowerDeps) => {
      const isMine = ofClusters(asked, deps);
      const found = deps.roster
        .list()
        .flatMap(({ name }) => (deps.power.reach(name) && isMine(name) ? [viewOf(name, deps)] : []));
      const part = partOf(
        query,
        found,
        ({ machine }) => machine,
        ({ machine }) => labelsOf(deps)(machine),
      );
      return { kind: 'BmcList' as const, ...part };
    },
  ),
  operation(
    'POST /v1/bmcs/rotate',
    {
      access: 'administer',
      takes: 'role',
      summary: "Replaces the passwords of Muster's own accounts on BMCs.",
      query: z.strictObject({ dryRun }),
      body: z.strictObject({
        machines: names('Their names, or hardware addresses.'),
        labels: word('Also those with these labels that have a BMC: `rack=a,role!=db`.'),
      }),
      answer: list,
    },
    async ({ query, body, ...asked }, deps: PowerDeps) => {
      const found = checked(chosen(body, deps, ofClusters(asked, deps)));
      if (found.length === 0) throw new MusterError('E_USAGE', 'this names no machine that has a BMC');
      for (const name of found) mustManage(name, deps.power.reach(name));
      if (!query.dryRun) await deps.power.rotate(found, nameOf(asked.principal));
      return { kind: 'BmcList' as const, items: found.map((name) => viewOf(name, deps)) };
    },
  ),
] as const;
