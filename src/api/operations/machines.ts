/** Orders about machines beyond their documents: add, accept, rearm, approve, quarantine. */
import { z } from 'zod';
import type { Agents } from '../../agent/serve/agents.ts';
import { names, truth } from '../../base/body.ts';
import type { Millis } from '../../base/duration.ts';
import type { Fault } from '../../base/errors.ts';
import { MusterError } from '../../base/errors.ts';
import type { BmcConsoles } from '../../bmc/consoles.ts';
import type { QuarantinedMembers } from '../../cluster/change/quarantined-member.ts';
import type { AcceptOptions } from '../../machines/accept.ts';
import type { Consoles } from '../../machines/console.files.ts';
import { printable } from '../../machines/identity.ts';
import type { InstallOrder } from '../../machines/install-order.ts';
import type { Replacement } from '../../machines/life/replace.ts';
import type { KnownMachine } from '../../machines/machine.ts';
import type { Roster } from '../../machines/roster.ts';
import { type DataKeys, FILESYSTEM_ID } from '../../pki/data-keys.ts';
import type { RunningBootService } from '../../pxe/decide/boot-service.ts';
import type { ReasonCode } from '../../pxe/decide/decision.ts';
import type { LiveCatalog } from '../../resources/catalog.ts';
import { API_VERSION } from '../../resources/kinds.ts';
import { checkJoins, mayApprove } from '../access.ts';
import { confirmed } from '../confirmed.ts';
import { fault, labelledPart, listOf, on, type Parsed, part, time, word } from '../contract/contract.ts';
import { applied, knownMachine, trust } from '../contract/documents.ts';
import { findMachine, labelsOf, macOf, placing } from '../find-machine.ts';
import { partOf } from '../listing.ts';
import { operation, reply } from '../operation.ts';
import { machineView, timestamp, withTimestamps } from '../times.ts';
import { nameOf } from './power.ts';

export interface MachineDeps {
  readonly catalog: LiveCatalog;
  readonly roster: Pick<Roster, 'get' | 'byMac'>;
  readonly preview: Pick<RunningBootService, 'outlook'>;
  readonly agents: Pick<Agents, 'waiting' | 'approve' | 'rearm' | 'agentCluster'>;
  /**
   * Makes a document for a machine that was seen, or lets a held machine try again.
   *
   * @throws {MusterError} E_NOT_FOUND, and what applying a document throws
   */
  readonly accept: (name: string, options: AcceptOptions) => Promise<KnownMachine>;
  /** See {@link import('../../machines/life/replace.ts').replaceMachine}. */
  readonly replace: (name: string, by: Replacement) => Promise<KnownMachine>;
  /** See {@link import('../../machines/install-order.ts').orderInstall}. */
  readonly install: (name: string, order: InstallOrder) => Promise<KnownMachine>;
  readonly pki: { readonly dataKeys: Pick<DataKeys, 'of' | 'remove'> };
  readonly power: { readonly consoles: Pick<Consoles, 'boots' | 'lines'> & Pick<BmcConsoles, 'held'> };
  readonly quarantine: {
    /** @throws {MusterError} E_NOT_FOUND for an unknown machine, E_USAGE without a reason */
    readonly hold: (machine: string, why: string, deletePods: boolean) => Promise<KnownMachine>;
    /**
     * @throws {MusterError} E_NOT_FOUND for an unknown machine, E_CONFLICT when it is not held so
     */
    readonly release: (machine: string) => Promise<KnownMachine>;
    /** What becomes of its member of etcd; undefined when it has none. */
    readonly leaveEtcd: QuarantinedMembers['leave'];
    readonly returnToEtcd: QuarantinedMembers['release'];
  };
}

/** Reasons to hold a machine that has no profile. */
const UNSELECTED: ReadonlySet<string> = new Set(['no_profile', 'no_inventory'] satisfies ReasonCode[]);

const waiting = {
  machine: z.string(),
  key: z.string(),
  address: z.string(),
  known: z.boolean(),
  replaces: z.boolean(),
  since: time,
  trust,
  code: z.string().optional(),
};

const waitingMachine = z
  .strictObject({
    ...waiting,
    cluster: z.string().optional(),
    macs: z.array(z.string()).meta({ description: 'By the document of the machine.' }),
    serial: z.string().optional(),
    manufacturer: z.string().optional(),
    product: z.string().optional(),
  })
  .meta({ id: 'Waiting', description: 'What a machine said of itself nobody checked.' });
/** A key that waits, with what is known of its machine. */
export type Waiting = Parsed<z.output<typeof waitingMachine>>;

const dataKeyView = z.strictObject({ filesystem: z.string(), since: time });

export const MACHINES = [
  operation(
    'POST /v1/machines/add',
    {
      access: 'operate',
      takes: 'role',
      summary: 'Makes a Machine.',
      body: z.strictObject({
        mac: z.string(),
        profile: z.string().optional(),
        name: z.string().optional(),
        address: z.string().optional(),
        cluster: z.string().optional(),
      }),
      answer: applied.extend({ warnings: z.array(fault) }),
      statuses: [201],
    },
    async ({ body }, deps: Pick<MachineDeps, 'catalog' | 'roster' | 'preview'>) => {
      const { profile, cluster, address } = body;
      const mac = macOf(body.mac);
      const name = body.name ?? deps.roster.byMac(mac)?.name ?? `m-${mac.replaceAll(':', '')}`;
      if (deps.catalog.get('Machine', name))
        throw new MusterError('E_CONFLICT', `Machine "${name}" exists; change it with \`muster apply\``);
      const document = {
        apiVersion: API_VERSION,
        kind: 'Machine',
        metadata: { name },
        spec: {
          macs: [mac],
          ...(profile === undefined ? {} : { profile }),
          ...(cluster === undefined ? {} : { cluster }),
          ...(address === undefined ? {} : { addresses: [address] }),
        },
      };
      const { results, warnings } = await deps.catalog.apply([document], { expectRevision: 'absent' });
      const held = deps.preview.outlook(name);
      const unselected: Fault = {
        code: 'E_REFERENCE',
        path: 'spec.profile',
        message: `Machine/${name}: it names no profile, and no Profile selects it; it is held when it boots`,
      };
      return reply(
        {
          ...results[0]!,
          warnings: [...warnings, ...(UNSELECTED.has(held?.code ?? '') ? [unselected] : [])],
        },
        201,
      );
    },
  ),
  operation(
    'POST /v1/machines/:name/accept',
    {
      access: 'operate',
      takes: 'role',
      summary:
        'Accepts a machine that was seen, or lets a held one try again. It is named as it is listed, or by hardware address.',
      body: z.strictObject({
        profile: z.string().optional(),
        name: z.string().optional(),
        cluster: z.string().optional(),
        macs: names('Its hardware addresses.'),
      }),
      answer: knownMachine,
    },
    async ({ params, body, principal }, deps: Pick<MachineDeps, 'roster' | 'accept'>) => {
      const { macs, ...given } = body;
      const machine = findMachine(params.name, deps);
      if (given.cluster !== undefined) checkJoins(principal, given.cluster);
      return machineView(await deps.accept(machine.name, { ...given, macs: macs.map(macOf) }));
    },
  ),
  operation(
    'POST /v1/machines/:name/install',
    {
      access: 'administer',
      takes: 'second',
      summary: 'Lets a machine install its system on its disk at its next boot (`home: disk`).',
      body: z.strictObject({
        release: z
          .string()
          .regex(/^.{1,96}$/)
          .optional()
          .meta({ description: 'Serial number of the disk whose data may go.' }),
        restart: truth('Its BMC switches it off and on now, and it boots from the network.'),
      }),
      answer: knownMachine,
    },
    async ({ params, body, principal }, deps: Pick<MachineDeps, 'roster' | 'install'>) => {
      const { name } = findMachine(params.name, deps);
      const { release: released, restart: restarts } = body;
      return machineView(await deps.install(name, { released, restarts, by: nameOf(principal) }));
    },
  ),
  operation(
    'POST /v1/machines/:name/replace',
    {
      access: 'administer',
      takes: 'second',
      summary:
        'Gives a machine the hardware of another one, which was seen and has no document; its name and its place stay.',
      body: z.strictObject({
        by: z.string().meta({ description: 'The new machine, as it is listed, or by hardware address.' }),
        macs: names('Addresses of the new machine besides the one that it booted from.'),
        keepsDisks: truth('The disks of the old machine are in the new one.'),
        confirm: z.string().optional().meta({ description: 'The name of the machine, repeated.' }),
      }),
      answer: knownMachine,
    },
    async ({ params, body }, deps: Pick<MachineDeps, 'roster' | 'replace'>) => {
      const { name } = findMachine(params.name, deps);
      confirmed(name, body, 'replace');
      const { macs, keepsDisks } = body;
      const by = findMachine(body.by, deps).name;
      return machineView(await deps.replace(name, { by, macs: macs.map(macOf), keepsDisks }));
    },
  ),
  operation(
    'POST /v1/machines/:name/rearm',
    {
      access: 'operate',
      takes: 'role',
      summary: "Ends a machine's alarm.",
      query: z.strictObject({ keep: on('Its certificate stays; else the next key gets a new one.') }),
      answer: knownMachine.extend({ endedAlarm: z.string().optional() }),
    },
    async ({ params, query }, deps: Pick<MachineDeps, 'roster' | 'agents'>) => {
      const { name, status } = findMachine(params.name, deps);
      const endedAlarm = status.alarm?.code;
      const view = machineView(await deps.agents.rearm(name, { keep: query.keep ?? false }));
      return { ...view, ...(endedAlarm !== undefined && { endedAlarm }) };
    },
  ),
  operation(
    'GET /v1/machines/:name/data-keys',
    {
      access: 'view',
      summary: 'Lists the encrypted filesystems of a machine whose keys the boot host has.',
      query: z.strictObject(part),
      answer: listOf('DataKeyList', dataKeyView),
    },
    async ({ params, query }, deps: Pick<MachineDeps, 'roster' | 'pki'>) => {
      const { name } = findMachine(params.name, deps);
      const items = (await deps.pki.dataKeys.of(name)).map(({ filesystem, since }) => ({
        filesystem,
        since: timestamp(since as Millis),
      }));
      return { kind: 'DataKeyList' as const, ...partOf(query, items, (one) => one.filesystem) };
    },
  ),
  operation(
    'DELETE /v1/machines/:name/data-keys/:filesystem',
    {
      access: 'administer',
      takes: 'second',
      summary: 'Removes the key of an encrypted filesystem; what is on that disk cannot be read any more.',
      answer: z.strictObject({ filesystem: z.string() }),
    },
    async ({ params: { name, filesystem } }, deps: Pick<MachineDeps, 'roster' | 'pki'>) => {
      // The machine may be gone for long.
      if (!FILESYSTEM_ID.test(filesystem) || !(await deps.pki.dataKeys.remove(name, filesystem)))
        throw new MusterError('E_NOT_FOUND', `${name} has no key of a filesystem "${filesystem}"`);
      return { filesystem };
    },
  ),
  operation(
    'GET /v1/waiting',
    {
      access: 'view',
      within: true,
      summary: 'Lists machines whose keys wait for an approval.',
      query: z.strictObject({
        cluster: word('Only of this cluster.'),
        codes: on('Shows what their consoles show, to those who may approve.'),
        ...labelledPart,
      }),
      answer: listOf('WaitingList', waitingMachine),
    },
    ({ query, within, principal }, deps: Pick<MachineDeps, 'roster' | 'agents'>) => {
      const placeOf = placing(deps);
      const items = deps.agents
        .waiting({ codes: query.codes ?? false })
        .map(({ code, ...key }) => {
          const shown = code !== undefined && mayApprove(principal, key.machine, placeOf);
          const member = deps.roster.get(key.machine);
          const { serial, manufacturer, product } = member?.status.seen ?? {};
          return {
            ...withTimestamps(key, 'since'),
            ...(shown && { code }),
            cluster: deps.agents.agentCluster(key.machine),
            macs: member?.entry?.document.spec.macs ?? [],
            ...(serial !== undefined && { serial: printable(serial, 64) }),
            ...(manufacturer !== undefined && { manufacturer: printable(manufacturer, 64) }),
            ...(product !== undefined && { product: printable(product, 64) }),
          };
        })
        .filter((one) => query.cluster === undefined || one.cluster === query.cluster)
        .filter(({ machine }) => within?.has(placeOf(machine) ?? '') ?? true)
        .sort((a, b) => (a.machine < b.machine ? -1 : a.machine > b.machine ? 1 : 0));
      const labels = labelsOf(deps);
      const part = partOf(
        query,
        items,
        (one) => `${one.machine}/${one.key}`,
        (one) => labels(one.machine),
      );
      return { kind: 'WaitingList' as const, ...part };
    },
  ),
  operation(
    'POST /v1/machines/:name/approve',
    {
      access: 'operate',
      takes: 'role',
      summary: 'Approves the waiting key of a machine.',
      body: z.strictObject({
        code: z.string().default('').meta({ description: 'As the console of the machine shows it.' }),
        console: z
          .literal('bmc')
          .optional()
          .meta({ description: 'Instead of a code: the one that its BMC carries on the serial console.' }),
      }),
      answer: z.strictObject(waiting),
    },
    async ({ params, body }, deps: Pick<MachineDeps, 'roster' | 'agents' | 'power'>) => {
      const { name } = findMachine(params.name, deps);
      if (body.console && body.code !== '')
        throw new MusterError('E_USAGE', 'give a code, or the console that shows it');
      const code = body.console ? await codeOnConsole(name, deps.power.consoles) : body.code;
      return withTimestamps(await deps.agents.approve(name, code), 'since');
    },
  ),
  operation(
    'POST /v1/machines/:name/quarantine',
    {
      access: 'administer',
      takes: 'second',
      summary: 'Puts a machine in quarantine. It gets nothing until it is released.',
      body: z.strictObject({
        reason: z.string().default(''),
        pods: z
          .literal('delete')
          .optional()
          .meta({ description: 'An operator confirms that its pods are deleted.' }),
      }),
      answer: knownMachine.extend({
        etcd: z
          .strictObject({ cluster: z.string(), stays: z.string().optional() })
          .optional()
          .meta({ description: 'What becomes of its member of etcd.' }),
      }),
    },
    async ({ params, body }, deps: Pick<MachineDeps, 'roster' | 'quarantine'>) => {
      const { name } = findMachine(params.name, deps);
      const held = await deps.quarantine.hold(name, body.reason, body.pods === 'delete');
      // The quarantine counts, whatever becomes of the member.
      const etcd = await deps.quarantine.leaveEtcd(name);
      return { ...machineView(held), ...(etcd && { etcd }) };
    },
  ),
  operation(
    'POST /v1/machines/:name/release',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Ends the quarantine of a machine; its certificate stays revoked.',
      answer: knownMachine,
    },
    async ({ params }, deps: Pick<MachineDeps, 'roster' | 'quarantine'>) => {
      const { name } = findMachine(params.name, deps);
      const freed = await deps.quarantine.release(name);
      await deps.quarantine.returnToEtcd(name);
      return machineView(freed);
    },
  ),
] as const;

/**
 * The code that the serial console of a machine showed last in this boot. No program of the machine
 * is believed in it: the BMC is another computer, with a log-in of its own.
 *
 * @throws {MusterError} E_APPROVAL when it shows none
 */
async function codeOnConsole(machine: string, consoles: MachineDeps['power']['consoles']): Promise<string> {
  const refuse = (why: string): never => {
    throw new MusterError('E_APPROVAL', why);
  };
  const held = consoles.held(machine);
  if (held === undefined)
    return refuse(`no document says that the boot host holds the console of ${machine}`);
  if (held.since === undefined)
    return refuse(`the console of ${machine} is not open${held.fault ? `: ${held.fault}` : ''}`);
  const [boot] = await consoles.boots(machine);
  const lines = boot === undefined ? [] : await consoles.lines(machine, boot.id, 0);
  const shown = lines.flatMap(({ text }) => {
    const [, name, code] = /muster machine approve (\S+) (\S+)\s*$/.exec(text) ?? [];
    return name === machine ? [code!] : [];
  });
  return shown.at(-1) ?? refuse(`the console of ${machine} has shown no code in this boot`);
}
