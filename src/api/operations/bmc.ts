/** BMCs: how they are reached, Muster's own accounts on them, and new passwords for these. */
import { z } from 'zod';
import { names, truth } from '../../base/body.ts';
import type { Clock } from '../../base/clock.ts';
import { MusterError } from '../../base/errors.ts';
import { formatIpv4 } from '../../base/ipv4.ts';
import type { Mac } from '../../base/mac.ts';
import { beforeChange } from '../../base/rehearsal.ts';
import { OWN_USER } from '../../bmc/account.ts';
import { countingPin } from '../../bmc/certificate.ts';
import { whereOf } from '../../bmc/reach.ts';
import type { FoundService } from '../../bmc/redfish/ssdp.socket.ts';
import type { Sightings } from '../../bmc/sightings.ts';
import { mustCertify, mustManage } from '../../bmc/upkeep.ts';
import type { Inventories } from '../../machines/inventories.ts';
import type { LeaseBook } from '../../pxe/dhcp/leases.ts';
import { dryRun, labelledPart, listOf, type Parsed, time, word } from '../contract/contract.ts';
import { labelsOf, ofClusters } from '../find-machine.ts';
import { partOf } from '../listing.ts';
import { operation } from '../operation.ts';
import { checked, chosen, nameOf, type PowerDeps, stamp } from './power.ts';

const bmcView = z.strictObject({
  machine: z.string(),
  address: z.string().meta({ description: 'Its MAC address while it has no other.' }),
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
  certificate: z
    .strictObject({ since: time, notAfter: time })
    .optional()
    .meta({ description: "The certificate of Muster's CA that it shows." }),
  certify: z
    .strictObject({ by: z.string(), at: time })
    .optional()
    .meta({ description: 'A new certificate was ordered, and is not shown yet.' }),
});
export type BmcView = Parsed<z.output<typeof bmcView>>;
const list = listOf('BmcList', bmcView);

interface FindDeps extends PowerDeps {
  readonly inventories: Pick<Inventories, 'list'>;
  readonly leases: Pick<LeaseBook, 'list' | 'addressOf'>;
  readonly sightings: Pick<Sightings, 'list'>;
  /** Asks the segments for Redfish services. */
  readonly searchBmcs: () => Promise<readonly FoundService[]>;
  readonly clock: Pick<Clock, 'now'>;
}

function viewOf(machine: string, { power }: Pick<PowerDeps, 'power'>) {
  const reach = power.reach(machine)!;
  const known = power.known(machine);
  const { own, due, fault, protocol, certificate, certify } = known ?? {};
  const { managed, user: given } = reach.credentials ?? {};
  const user = own && managed ? OWN_USER : given;
  const ours = reach.managedCertificate ? certificate : undefined;
  const pin = countingPin(reach, known);
  return {
    ...{ machine, address: whereOf(reach), protocol: protocol ?? reach.protocol },
    ...(user !== undefined && { user }),
    ...(managed && { managed }),
    ...(managed && own && { since: stamp(own.since) }),
    ...(due && { due: { by: due.by, at: stamp(due.at) } }),
    ...(fault && {
      fault: { code: fault.code, text: fault.message, times: fault.times, at: stamp(fault.at) },
    }),
    ...(pin !== undefined && { pin }),
    ...(ours && { certificate: { since: stamp(ours.issuedAt), notAfter: stamp(ours.notAfter) } }),
    ...(certify && { certify: { by: certify.by, at: stamp(certify.at) } }),
  };
}

const foundBmc = z.strictObject({
  machine: z
    .string()
    .optional()
    .meta({ description: 'Who reports it, or whose document names it; absent: nobody knows.' }),
  address: z.string().optional().meta({ description: 'Where it is; a claim of whoever said so.' }),
  from: z.enum(['agent', 'discovery', 'dhcp', 'ssdp']).meta({
    description:
      '`agent`: sent with the certificate of the machine. The others anybody on the segment may have written: `discovery`: sent by the discovery system. `dhcp`: it asked for an address, as BMCs of its vendor do. `ssdp`: it answered the search for Redfish services.',
  }),
  reportedAt: time,
  document: z.enum(['none', 'same', 'other']).meta({
    description: 'Whether the document of the machine names a BMC, and whether this one.',
  }),
  others: z.array(z.string()).optional().meta({
    description: 'Other machines that report the same address, or whose documents name it.',
  }),
  mac: z.string().optional().meta({ description: 'Who has a lease of the address.' }),
  vendor: z.string().optional().meta({ description: 'What its DHCP packets say that it is.' }),
  location: z.string().optional().meta({
    description: 'The URL by which it answered the search. Nobody has fetched it.',
  }),
  elsewhere: z.literal(true).optional().meta({
    description: 'That URL is at another host than the one that answered.',
  }),
});
type FoundBmc = Parsed<z.output<typeof foundBmc>>;
const foundList = listOf('FoundBmcList', foundBmc);

type Mine = ReturnType<typeof ofClusters>;

/** The machines of each BMC: those whose documents name it, and those that report it. */
function usersOf(deps: FindDeps, isMine: Mine) {
  const users = new Map<string, Set<string>>();
  const uses = (place: string | undefined, machine: string): void => {
    if (place !== undefined) users.set(place, (users.get(place) ?? new Set()).add(machine));
  };
  for (const { machine, inventory } of deps.inventories.list())
    if (isMine(machine)) uses(inventory.bmc?.address, machine);
  const documented = new Map<string, string>();
  for (const { name } of deps.roster.list()) {
    const reach = isMine(name) ? deps.power.reach(name) : undefined;
    uses(reach?.address, name);
    for (const place of [reach?.address, reach?.mac]) if (place !== undefined) documented.set(place, name);
  }
  return { users, documented };
}

/** What machines, DHCP packets and services say of BMCs, beside what documents say. */
function foundIn(deps: FindDeps, isMine: Mine, services: readonly FoundService[] = []): readonly FoundBmc[] {
  const leases = new Map<string, Mac>(
    deps.leases
      .list(undefined)
      .filter(({ lease }) => isMine(lease?.machine))
      .map(({ address, mac }) => [formatIpv4(address), mac]),
  );
  const vendors = new Map(deps.sightings.list().map(({ mac, vendor }) => [mac, vendor]));
  const answered = new Map(services.map((one) => [one.sender, one]));
  const { users, documented } = usersOf(deps, isMine);
  /** What else is known of a BMC. */
  const besides = (address: string | undefined, mac?: Mac) => {
    const of = mac ?? (address === undefined ? undefined : leases.get(address));
    const vendor = of && vendors.get(of);
    const { location, elsewhere } = answered.get(address ?? '') ?? {};
    return {
      ...(of !== undefined && { mac: of }),
      ...(vendor !== undefined && { vendor }),
      ...(location !== undefined && { location }),
      ...(elsewhere && { elsewhere }),
    };
  };
  const reported = deps.inventories
    .list()
    .flatMap(({ machine, at, claimed, inventory: { bmc } }): FoundBmc[] => {
      if (bmc === undefined || !deps.roster.get(machine) || !isMine(machine)) return [];
      const { address } = bmc;
      const reach = deps.power.reach(machine);
      const others = [...users.get(address)!].filter((one) => one !== machine);
      return [
        {
          ...{ machine, address, from: claimed ? 'discovery' : 'agent', reportedAt: stamp(at) },
          document: reach === undefined ? 'none' : whereOf(reach) === address ? 'same' : 'other',
          ...(others.length > 0 && { others }),
          ...besides(address),
        },
      ];
    });
  const known = new Set(reported.map(({ address }) => address));
  const heard = (from: 'dhcp' | 'ssdp', at: number, address: string | undefined, mac?: Mac): FoundBmc[] => {
    const machine = documented.get(address ?? '') ?? documented.get(mac ?? '');
    if (!isMine(machine) || (address !== undefined && known.has(address))) return [];
    if (address !== undefined) known.add(address);
    return [
      {
        ...(machine !== undefined && { machine }),
        ...(address !== undefined && { address }),
        ...{ from, reportedAt: stamp(at), document: machine === undefined ? 'none' : 'same' },
        ...besides(address, mac),
      },
    ];
  };
  return [
    ...reported,
    ...deps.sightings.list().flatMap(({ mac, at }) => {
      const leased = deps.leases.addressOf(mac);
      return heard('dhcp', at, leased === undefined ? undefined : formatIpv4(leased), mac);
    }),
    ...services.flatMap(({ sender }) => heard('ssdp', deps.clock.now(), sender)),
  ];
}

const nameOfFound = ({ machine, address, mac }: FoundBmc): string => machine ?? address ?? mac ?? '';

const authority = z.strictObject({
  certificates: z.string().meta({ description: 'PEM, the oldest first; empty: nothing was signed yet.' }),
});

export const BMCS = [
  operation(
    'GET /v1/bmcs/found',
    {
      access: 'view',
      within: true,
      costly: true,
      summary:
        'Lists the BMCs that machines report of themselves, or that asked for an address, beside what documents say.',
      query: z.strictObject(labelledPart),
      answer: foundList,
    },
    ({ query, ...asked }, deps: FindDeps) => {
      const part = partOf(query, foundIn(deps, ofClusters(asked, deps)), nameOfFound, ({ machine }) =>
        labelsOf(deps)(machine),
      );
      return { kind: 'FoundBmcList' as const, ...part };
    },
  ),
  operation(
    'POST /v1/bmcs/search',
    {
      access: 'operate',
      takes: 'role',
      costly: true,
      summary:
        'Asks the segments that are served for Redfish services (SSDP), for three seconds, and lists them with the BMCs that are known otherwise.',
      answer: foundList,
    },
    async (asked, deps: FindDeps) => {
      beforeChange('search for Redfish services');
      const services = await deps.searchBmcs();
      return { kind: 'FoundBmcList' as const, items: [...foundIn(deps, ofClusters(asked, deps), services)] };
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
      summary: "Replaces the passwords of Muster's own accounts on BMCs, or their certificates.",
      query: z.strictObject({ dryRun }),
      body: z.strictObject({
        machines: names('Their names, or hardware addresses.'),
        labels: word('Also those with these labels that have a BMC: `rack=a,role!=db`.'),
        certificate: truth('Replaces the certificate instead of the password.'),
      }),
      answer: list,
    },
    async ({ query, body, ...asked }, deps: PowerDeps) => {
      const found = checked(chosen(body, deps, ofClusters(asked, deps)));
      if (found.length === 0) throw new MusterError('E_USAGE', 'this names no machine that has a BMC');
      const { certificate: isCertificate } = body;
      for (const name of found) (isCertificate ? mustCertify : mustManage)(name, deps.power.reach(name));
      const by = nameOf(asked.principal);
      if (!query.dryRun) await (isCertificate ? deps.power.certify(found, by) : deps.power.rotate(found, by));
      return { kind: 'BmcList' as const, items: found.map((name) => viewOf(name, deps)) };
    },
  ),
  operation(
    'GET /v1/bmcs/ca',
    {
      access: 'view',
      summary: 'Shows the certificates of the CA that signs for BMCs.',
      answer: authority,
    },
    async (_, { power }: PowerDeps) => ({ certificates: await power.authority() }),
  ),
  operation(
    'POST /v1/bmcs/ca',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Replaces the CA that signs for BMCs, and then all certificates that it signed.',
      answer: authority,
    },
    async (_, { power }: PowerDeps) => {
      await power.replaceAuthority();
      return { certificates: await power.authority() };
    },
  ),
] as const;
