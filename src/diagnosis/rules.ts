/**
 * The table of verdicts. A rule finds the events that show its trouble; none means that it does not
 * apply. docs/diagnosis.md is generated from this table; test/golden/diagnosis has the recorded
 * events of each.
 */

import { duration } from '../base/duration.ts';
import type { HoldCode } from '../cluster/etcd/holds.ts';
import type { MusterEvent } from '../events/event.ts';
import { TICKET_REFUSALS } from '../machines/tickets.ts';
import type { ReasonCode } from '../pxe/decide/decision.ts';
import type { OutcomeCode } from '../pxe/dhcp/outcomes.ts';
import { REFUSED_BY_GRUB } from '../pxe/script/grub.ts';
import { BOOT_DISK_DAMAGED } from './boot-disk-rule.ts';
import {
  BOOTING,
  CLIENT_PATIENCE,
  fieldOf,
  isOverdue,
  lastWithout,
  NOTHING,
  numberOf,
  type ObservedBoot,
  type Shown,
  shown,
  withReason,
} from './observe.ts';
import { POWER_RULES } from './power-rules.ts';

interface Rule<Code extends string> {
  readonly code: Code;
  readonly title: string;
  readonly certainty: 'certain' | 'likely';
  /** What is behind it, and how it is told apart; for the page. */
  readonly about: string;
  /** `NAME` becomes the machine's. */
  readonly remedy: string;
  readonly find: (boot: ObservedBoot) => readonly Shown[];
}

const rule = <const Code extends string>(one: Rule<Code>): Rule<Code> => one;

const outcomes = (...codes: readonly OutcomeCode[]): readonly string[] => codes;
const decisions = (...codes: readonly ReasonCode[]): readonly string[] => codes;
const holds = (...codes: readonly HoldCode[]): readonly string[] => codes;

const stageIn = (event: MusterEvent, stages: readonly string[]): boolean =>
  stages.includes(fieldOf(event, 'stage'));
const isDhcp = ({ kind }: MusterEvent): boolean => kind.startsWith('dhcp.');
const isTftp = ({ kind }: MusterEvent): boolean => kind.startsWith('tftp.');
const fetched = ({ kind }: MusterEvent): boolean =>
  kind === 'asset.served' ||
  kind === 'boot.script' ||
  kind === 'boot.discovery' ||
  kind === 'report.believed';

/** A client that asked so many times in vain did not just lose one packet. */
const OFFERS_IGNORED = 3;
/** Messages before the first one that was heard, by the seconds that the client counts. */
const LINK_SECONDS = 10;
/** A client that sends the field in the wrong order of octets shows at least 256. */
const LINK_SECONDS_AT_MOST = 120;
/** Slower than this, a loader of 1 MB takes ten seconds. */
const SLOW_BYTES_PER_SECOND = 100_000;
const MANY_RESENT = 5;

function offersIgnored(boot: ObservedBoot): readonly Shown[] {
  const last = boot.events.findLast(isDhcp);
  if (last?.kind !== 'dhcp.offer' || !stageIn(last, BOOTING)) return NOTHING;
  const stage = fieldOf(last, 'stage');
  const own = boot.events.filter((event) => isDhcp(event) && fieldOf(event, 'stage') === stage);
  const trailing = own.slice(own.findLastIndex(({ kind }) => kind !== 'dhcp.offer') + 1);
  const since = boot.events.slice(boot.events.indexOf(trailing[0]!));
  return trailing.length >= OFFERS_IGNORED &&
    !since.some((event) => isTftp(event) || fetched(event)) &&
    isOverdue(boot, last, CLIENT_PATIENCE)
    ? shown(trailing)
    : NOTHING;
}

function splitOffersIgnored(boot: ObservedBoot): readonly Shown[] {
  const taken = lastWithout(
    boot.events,
    (event) =>
      event.kind === 'dhcp.noted' && event.reason?.code === 'proxy_leaves' && stageIn(event, ['pxe', 'http']),
    (event) => isTftp(event) || fetched(event) || event.reason?.code === 'boot_server_acked',
  );
  const offered = boot.events.filter(
    (event) =>
      event.kind === 'dhcp.offer' &&
      event.reason?.code === 'proxy_offered' &&
      stageIn(event, ['pxe', 'http']),
  );
  return taken && offered.length > 0 && isOverdue(boot, taken, CLIENT_PATIENCE)
    ? shown([...offered.slice(-2), taken])
    : NOTHING;
}

const byTftp = (event: MusterEvent): boolean =>
  event.kind === 'dhcp.ack' &&
  fieldOf(event, 'stage') === 'pxe' &&
  fieldOf(event, 'file') !== '' &&
  !/^https?:/.test(fieldOf(event, 'file'));

function tftpBlocked(boot: ObservedBoot): readonly Shown[] {
  const silent = withReason(boot, ['tftp.failed'], ['timeout']).filter(
    (event) => numberOf(event, 'octets') === 0,
  );
  const acked = lastWithout(
    boot.events,
    byTftp,
    (event) => !byTftp(event) && (isTftp(event) || fetched(event) || isDhcp(event)),
  );
  return [...shown(silent), ...(acked && isOverdue(boot, acked, CLIENT_PATIENCE) ? shown([acked]) : [])];
}

function tftpSlow(boot: ObservedBoot): readonly Shown[] {
  return boot.events.filter(isTftp).flatMap((event): Shown[] => {
    const [octets, milliseconds, resent] = ['octets', 'milliseconds', 'resent'].map((name) =>
      numberOf(event, name),
    ) as [number, number, number];
    const slow =
      octets >= 100_000 && milliseconds > 0 && (octets * 1000) / milliseconds < SLOW_BYTES_PER_SECOND;
    const broken = event.reason?.code === 'timeout' && octets > 0;
    if (!slow && !broken && resent < MANY_RESENT) return [];
    return [
      {
        event,
        text: `${fieldOf(event, 'file')}: ${octets} octets in ${milliseconds} ms, ${resent} windows sent again${broken ? ', then the client fell silent' : ''}`,
      },
    ];
  });
}

function linkLate(boot: ObservedBoot): readonly Shown[] {
  // iPXE counts retries in the field (quirk ipxe-secs), so only firmware is believed.
  const first = boot.events.find((event) => isDhcp(event));
  const secs = first && stageIn(first, ['pxe', 'http']) ? numberOf(first, 'secs') : 0;
  return [first!]
    .filter(() => secs >= LINK_SECONDS && secs <= LINK_SECONDS_AT_MOST)
    .map((event) => ({
      event,
      text: `the first message of this software was heard ${numberOf(event, 'secs')} s after it began to ask`,
    }));
}

const waitsFor = (boot: ObservedBoot, codes: readonly string[]): readonly Shown[] => {
  const held = lastWithout(
    boot.events,
    ({ kind, reason }) => kind === 'agent.held' && reason !== undefined && codes.includes(reason.code),
    ({ kind }) => kind === 'agent.step' || kind === 'agent.held',
  );
  return held ? shown([held]) : NOTHING;
};

/** A file of so many octets takes seconds, even where it is slow. */
const LARGE_OCTETS = 4_000_000;
const SLOW_HTTP = 1_000_000;

function httpSlow({ events }: ObservedBoot): readonly Shown[] {
  return events.flatMap((event): Shown[] => {
    const [octets, milliseconds] = [numberOf(event, 'octets'), numberOf(event, 'milliseconds')];
    const slow =
      event.kind === 'asset.served' && octets >= LARGE_OCTETS && octets * 1000 < SLOW_HTTP * milliseconds;
    if (!slow && event.kind !== 'asset.cut') return [];
    const name = fieldOf(event, 'file').slice(0, 12);
    return [
      {
        event,
        text: `${name}: ${octets} octets in ${milliseconds} ms${slow ? '' : ', then the client left'}`,
      },
    ];
  });
}

/** kubelet asks within seconds, and certificates are approved within a minute. */
const KUBELET_PATIENCE = duration('3m');

function kubeletWithoutApi(boot: ObservedBoot): readonly Shown[] {
  const isToken = ({ kind }: MusterEvent): boolean => kind === 'cluster.join-token';
  const token = boot.events.findLast(isToken);
  const units = boot.events.findLast(({ kind, fields }) => kind === 'agent.step' && fields?.step === 'units');
  const waits =
    token?.reason?.code === 'handed-out' && units !== undefined && isOverdue(boot, units, KUBELET_PATIENCE);
  return waits ? shown([token, units]) : NOTHING;
}

const failures = ({ events }: ObservedBoot): readonly MusterEvent[] =>
  events.filter((event) => event.kind === 'report.believed' && fieldOf(event, 'step') === 'failed');

/** How the initrd's report begins when the root image has another hash. */
export const WRONG_ROOT = 'the root image is not the one that was promised';
const isWrongRoot = (event: MusterEvent): boolean =>
  fieldOf(event, 'detail').startsWith(`initrd: ${WRONG_ROOT}`);

/** The loader of a machine with Secure Boot could not start the kernel. */
const isRefusedKernel = (event: MusterEvent): boolean =>
  fieldOf(event, 'detail') === `${REFUSED_BY_GRUB} kernel`;

export const RULES = [
  rule({
    code: 'split-offers',
    title: 'The firmware ignores offers that come in two parts',
    certainty: 'likely',
    about:
      'On a network in proxy mode one server offers the address and Muster the boot file. The firmware took the address and never asked for the file, neither on port 4011 nor by TFTP. Some firmware, e.g. old U-Boot and some UEFI versions, reads only the offer with the address.',
    remedy:
      'Let the other DHCP server name the boot file too (next-server and filename), or let Muster give this machine its address: `mode: reservations` in the Network and `addresses` in Machine NAME.',
    find: splitOffersIgnored,
  }),
  rule({
    code: 'other-dhcp-server',
    title: 'Another DHCP server answered first',
    certainty: 'certain',
    about:
      'The machine got an offer from Muster and took that of another server, whose address is in the evidence. Firmware takes the first offer with a boot file, or the first at all.',
    remedy:
      'Switch the other server off on this segment, make it ignore this machine, or set the Network to `mode: proxy`, where it gives the addresses. `muster doctor` finds it, with its hardware address.',
    find: (boot) =>
      withReason(boot, ['dhcp.noted'], outcomes('other_server'))
        .filter((event) => stageIn(event, BOOTING))
        .map((event) => ({
          event,
          text: `${fieldOf(event, 'stage')} asked ${fieldOf(event, 'server') || 'another server'} for its address, after Muster had offered one`,
        })),
  }),
  rule({
    code: 'offers-unanswered',
    title: 'The machine does not react to offers',
    certainty: 'likely',
    about:
      'The machine asked several times, was answered each time, and never took an offer. Its messages arrive here and the answers do not arrive there: a firewall on this host, DHCP snooping on the switch that does not trust this port, a VLAN that is tagged in one direction, or a relay that does not forward replies. Firmware that finds no boot file that it accepts also asks again.',
    remedy:
      'Trust the port of this boot host in the switch (DHCP snooping), allow UDP from port 67 here, and check the relay; `muster doctor` tests what this host can test.',
    find: offersIgnored,
  }),
  rule({
    code: 'no-address',
    title: 'There is no address for the machine',
    certainty: 'certain',
    about:
      'All pools of the network are used up, or the address that is reserved for the machine is still held by another client.',
    remedy:
      'Enlarge `dhcp.pools` or shorten `dhcp.leaseTime` in the Network, or reserve an address in Machine NAME.',
    find: (boot) => shown(withReason(boot, ['dhcp.exhausted'])),
  }),
  rule({
    code: 'address-conflict',
    title: 'An address is used twice',
    certainty: 'certain',
    about: 'The machine, or a probe of Muster, found that somebody else answers for the address.',
    remedy:
      'Find the other host by its hardware address (`arping ADDRESS`), and take its address out of the pool, or change it.',
    find: (boot) => shown(withReason(boot, ['dhcp.decline', 'dhcp.conflict'])),
  }),
  rule({
    code: 'switch-port-slow',
    title: 'The switch port comes up slowly',
    certainty: 'likely',
    about:
      'The machine had asked for many seconds before its first message arrived here (field `secs` of DHCP). A switch port with spanning tree drops packets for 30 to 50 seconds after its link comes up, and so does a port that waits for LACP. Firmware gives up earlier.',
    remedy: 'Make the port an edge port (PortFast), and with a bond enable the LACP fallback of the switch.',
    find: linkLate,
  }),
  rule({
    code: 'tftp-blocked',
    title: 'TFTP does not get through',
    certainty: 'likely',
    about:
      'The firmware has its address and the name of its loader, and no TFTP request of it arrived, or nothing that was sent to it was acknowledged. TFTP answers from another port than 69; firewalls have to follow that. Firmware that does not want the file, e.g. under Secure Boot, looks the same.',
    remedy: 'Allow UDP port 69 to this host and all UDP ports from it, or let the firmware boot over HTTP.',
    find: tftpBlocked,
  }),
  rule({
    code: 'tftp-slow',
    title: 'TFTP is slow or loses packets',
    certainty: 'certain',
    about: 'A transfer was slower than 100 kB/s, had to send packets again, or broke off.',
    remedy:
      'Look for errors on the port (duplex, cable), and for an MTU on the path that is smaller than that of the Network; set `mtu` in the Network, or boot over HTTP.',
    find: tftpSlow,
  }),
  rule({
    code: 'loader-loop',
    title: 'The loader asks for a loader again',
    certainty: 'certain',
    about:
      'The loader that the machine got asked for a boot file as firmware does: it cannot fetch a script by HTTP, or it is another program than its name says.',
    remedy:
      'Remove `pxe.loader` from the documents of NAME, or install the loaders of Debian’s package ipxe again.',
    find: (boot) => shown(withReason(boot, ['boot.decision'], decisions('loader_loop'))),
  }),
  rule({
    code: 'wrong-architecture',
    title: 'Image or loader are for another architecture',
    certainty: 'certain',
    about:
      'The firmware is of an architecture for which there is no loader, or the image of the profile is for another one.',
    remedy: 'Give Machine NAME a profile whose image has its architecture; `muster explain NAME` shows both.',
    find: (boot) =>
      shown(withReason(boot, ['boot.decision'], decisions('arch_unsupported', 'arch_mismatch'))),
  }),
  rule({
    code: 'not-registered',
    title: 'No document decides what the machine boots',
    certainty: 'certain',
    about: 'No Machine document lists the machine, or it has no profile.',
    remedy: '`muster machine accept NAME --profile PROFILE`.',
    find: (boot) =>
      shown(
        withReason(
          boot,
          ['boot.decision'],
          decisions('unknown_machine', 'no_profile', 'no_inventory', 'profile_missing'),
        ).slice(-1),
      ),
  }),
  rule({
    code: 'image-missing',
    title: 'The image is not complete on the boot host',
    certainty: 'certain',
    about: 'The profile names an image that does not exist, or of which a file is not here.',
    remedy: '`muster image add` adds the files; the machine then continues by itself.',
    find: (boot) =>
      shown(withReason(boot, ['boot.decision'], decisions('image_missing', 'loader_missing')).slice(-1)),
  }),
  rule({
    code: 'identity-conflict',
    title: 'Two machines claim one identity',
    certainty: 'certain',
    about:
      'What the machine says of itself (addresses, serial, UUID) fits several documents, or another machine is running under it.',
    remedy:
      'Compare the documents that the evidence names with the label on the machine, and correct `macs`, `serial` or `uuid`.',
    find: (boot) => shown(withReason(boot, ['machine.conflict']).slice(-1)),
  }),
  rule({
    code: 'boot-loop',
    title: 'The machine boots again and again without becoming ready',
    certainty: 'certain',
    about:
      'It was given so many boots without a report `ready` that Muster stopped. The boots before this one show what goes wrong.',
    remedy:
      'Look at an earlier boot: `muster machine timeline NAME --boot -1`. Then `muster machine accept NAME` resets the count.',
    find: (boot) => shown(withReason(boot, ['machine.held'], decisions('boot_loop'))),
  }),
  rule({
    code: 'configuration-refused',
    title: 'The configuration was not served',
    certainty: 'certain',
    about:
      'The system asked for its first-boot configuration and did not get it; the evidence says why: another address than the machine’s, a session that is over, or a document that does not render.',
    remedy:
      '`muster render NAME` shows faults of the documents. List the address that asked in `addresses`, or its card in `macs`, if it is the machine’s.',
    find: (boot) => [
      ...shown(withReason(boot, ['config.refused'])),
      ...shown(withReason(boot, ['boot.decision'], decisions('config_invalid')).slice(-1)),
    ],
  }),
  rule({
    code: 'machine-failed',
    title: 'The machine reports that its boot failed',
    certainty: 'certain',
    about: 'Initrd or system gave up and said why. `muster get machine NAME -o yaml` has the end of its log.',
    remedy: 'Read the reason and the log: `muster get machine NAME -o yaml`, field status.logTail.',
    find: (boot) => shown(failures(boot).filter((event) => !isWrongRoot(event) && !isRefusedKernel(event))),
  }),
  rule({
    code: 'kernel-refused',
    title: 'The kernel was refused by Secure Boot',
    certainty: 'likely',
    about:
      'GRUB fetched the kernel of the Image and did not start it. With Secure Boot it starts only a kernel that is signed with a key that shim or the firmware trusts: Debian’s shim trusts Debian’s kernels. A kernel that was changed, is of another distribution, or did not arrive whole, looks the same.',
    remedy:
      'Use the signed kernel of the distribution whose shim boots ([secure-boot.md](secure-boot.md)); `muster image verify` says whether the file here is still the one that was added.',
    find: (boot) => shown(failures(boot).filter(isRefusedKernel)),
  }),
  rule({
    code: 'wrong-root-image',
    title: 'The root image does not have its hash',
    certainty: 'certain',
    about:
      'The initrd fetched the root image twice, and its SHA-256 was not the one that the Image names. The file on this host or on the way was changed; a memory fault of the machine looks the same.',
    remedy:
      '`muster image add` reads the files of the image again; if other machines boot from it, test the memory of NAME.',
    find: (boot) => shown(failures(boot).filter(isWrongRoot)),
  }),
  rule({
    code: 'fell-silent',
    title: 'The machine fell silent',
    certainty: 'certain',
    about:
      'It reported nothing within `configTimeout`. After a script, the kernel did not start or found no network: its console shows why.',
    remedy:
      'Look at the console of the machine: a missing driver of its card, a kernel panic, or too little memory. A slow machine needs a longer `configTimeout`.',
    find: (boot) => shown(withReason(boot, ['machine.phase'], ['timed_out'])),
  }),
  rule({
    code: 'ticket-refused',
    title: 'The agent’s ticket was refused',
    certainty: 'certain',
    about:
      'The agent asked for its certificate and did not get it; the reason is one of the list in docs/events.md.',
    remedy:
      'Do what the reason says: boot the machine again for a new ticket, list its address, or decide with `muster machine rearm NAME`.',
    find: (boot) => shown(withReason(boot, ['agent.refused'], Object.keys(TICKET_REFUSALS)).slice(-3)),
  }),
  rule({
    code: 'waits-for-approval',
    title: 'The machine waits for an operator',
    certainty: 'certain',
    about:
      'The key of the agent gets a certificate once an operator has typed the code that the console of the machine shows.',
    remedy: '`muster machine approve NAME CODE`, with the code from the console of the machine.',
    find: (boot) => {
      const waiting = lastWithout(
        boot.events,
        ({ kind }) => kind === 'agent.waiting',
        ({ kind }) => kind === 'agent.certificate' || kind === 'machine.approved',
      );
      return waiting ? shown([waiting]) : NOTHING;
    },
  }),
  rule({
    code: 'clock-off',
    title: 'The clock of the machine is wrong',
    certainty: 'certain',
    about:
      'It differs from that of the boot host by more than five minutes. Certificates and tokens would be refused.',
    remedy: 'Set it in the firmware, or name `timeServers`; compare the boot host’s own clock too.',
    find: (boot) => waitsFor(boot, ['clock']),
  }),
  rule({
    code: 'disk-not-found',
    title: 'A disk is not found',
    certainty: 'certain',
    about:
      'No disk, or more than one, fits the selector of the data disk or boot disk, or the disk holds data of somebody else.',
    remedy:
      'Compare `dataDisk` or `bootDisk` with the disks of the machine (`muster get inventory NAME`), and correct the selector.',
    find: (boot) => [
      ...waitsFor(boot, holds('no-data-disk', 'foreign-disk')),
      ...shown(withReason(boot, ['agent.boot-disk'], ['none', 'several', 'foreign']).slice(-1)),
    ],
  }),
  BOOT_DISK_DAMAGED,
  rule({
    code: 'wrong-hash',
    title: 'A file does not have its hash',
    certainty: 'certain',
    about:
      'The agent fetched a file and its SHA-256 is not the one that the plan names: the file on the way or on this host was changed.',
    remedy:
      '`muster artifacts verify` checks the files of this host; look at proxies and mirrors between host and machine.',
    find: (boot) => waitsFor(boot, ['wrong-hash', 'bad-plan']),
  }),
  rule({
    code: 'fetch-failed',
    title: 'The agent cannot fetch a file',
    certainty: 'certain',
    about: 'A program or image that the plan names could not be fetched.',
    remedy: 'The evidence has the words of the download; `muster get images` shows what is missing here.',
    find: (boot) => waitsFor(boot, ['fetch-failed']),
  }),
  rule({
    code: 'etcd-waits',
    title: 'etcd waits for other members',
    certainty: 'certain',
    about:
      'The first member starts when all members have asked; a member without data starts when the others have a quorum.',
    remedy: 'Power on the members that are missing; `muster cluster founding` names them.',
    find: (boot) => waitsFor(boot, holds('waiting-for-members', 'no-quorum', 'replacing-other', 'restoring')),
  }),
  rule({
    code: 'http-slow',
    title: 'Downloads over HTTP are slow or break off',
    certainty: 'certain',
    about:
      'The machine fetched a file of at least 4 MB at less than 1 MB/s, or ended a download before it had all of it. Root images take minutes then.',
    remedy:
      'Look for errors on the port (duplex, cable), and at the load of this host; give the network more bandwidth if many machines boot at once.',
    find: httpSlow,
  }),
  rule({
    code: 'kubelet-no-api',
    title: 'kubelet does not get its certificate',
    certainty: 'likely',
    about:
      'The machine has its token and its units, and kubelet has had no certificate from the API server for three minutes: it does not reach the endpoint of the cluster, no API server runs yet, or kubelet does not start.',
    remedy:
      '`muster cluster status` says whether the API answers. From the machine, the endpoint of the Cluster must be reachable on its port; `journalctl -u kubelet` there has the reason.',
    find: kubeletWithoutApi,
  }),
  ...POWER_RULES,
] as const;

export type VerdictCode = (typeof RULES)[number]['code'];
