/** What an entry of a timeline says, and what its machine did before it. */
import type { EventKind, MusterEvent } from '../events/event.ts';

type Describe = (event: MusterEvent) => string;

const field = ({ fields }: MusterEvent, name: string): string => String(fields?.[name] ?? '');
const of = (event: MusterEvent, name: string, before = ' '): string =>
  event.fields?.[name] === undefined ? '' : `${before}${field(event, name)}`;

/** Names of files that are hashes are shortened. */
const fileOf = (event: MusterEvent): string =>
  field(event, 'file').replace(/\b([0-9a-f]{12})[0-9a-f]{52}\b/, '$1…');

const SOFTWARE: ReadonlyMap<string, string> = new Map([
  ['pxe', 'the firmware'],
  ['http', 'the firmware (HTTP boot)'],
  ['ipxe', 'iPXE'],
  ['ipxe-tftp', 'iPXE without HTTP'],
  ['none', 'the system'],
]);

const dhcp =
  (reply: string): Describe =>
  (event) =>
    `${field(event, 'type') || 'DHCP'} of ${SOFTWARE.get(field(event, 'stage')) ?? 'a client'} → ${reply}` +
    `${of(event, 'address')}${event.fields?.file === undefined ? '' : `, file ${fileOf(event)}`}`;

const because = (event: MusterEvent): string => (event.reason ? `: ${event.reason.text}` : '');

/** Kinds that have no row here are shown as their reason, or as their kind. */
const TEXTS: Partial<Record<EventKind, Describe>> = {
  'dhcp.offer': dhcp('OFFER'),
  'dhcp.ack': dhcp('ACK'),
  'dhcp.nak': (event) => `${dhcp('NAK')(event)}${because(event)}`,
  'dhcp.noted': (event) => `${dhcp('no answer')(event)}${because(event)}`,
  'dhcp.exhausted': (event) => `${dhcp('no answer')(event)}${because(event)}`,
  'dhcp.store': (event) => `${dhcp('no answer')(event)}${because(event)}`,
  'dhcp.decline': (event) => `${field(event, 'address')} was declined${because(event)}`,
  'dhcp.conflict': (event) => `${field(event, 'address')} is in use${because(event)}`,
  'boot.session': (event) =>
    `the boot begins${of(event, 'mac', ' on ')}${of(event, 'arch', ', ')}${of(event, 'firmware', ', ')}`,
  'boot.decision': (event) =>
    `decision: ${field(event, 'decision')}${of(event, 'loader')}${of(event, 'image')}${because(event)}`,
  'boot.script': (event) =>
    `boot script: image ${field(event, 'image')} as profile ${field(event, 'profile')}`,
  'boot.discovery': (event) => `boot script: the discovery system, image ${field(event, 'image')}`,
  'tftp.served': (event) => `TFTP: ${fileOf(event)}`,
  'tftp.failed': (event) => `TFTP: ${fileOf(event)} was not sent${because(event)}`,
  'asset.served': (event) => `HTTP: ${fileOf(event)}`,
  'asset.cut': (event) => `HTTP: ${fileOf(event)} was not fetched to its end`,
  'config.served': (event) => `configuration: ${fileOf(event)}`,
  'config.secrets': () => 'configuration: secrets',
  'config.refused': (event) => `configuration refused: ${fileOf(event)}${because(event)}`,
  'report.believed': (event) => `the machine reports ${field(event, 'step')}${of(event, 'detail', ': ')}`,
  'report.disbelieved': (event) => `a report of "${field(event, 'step')}" was ignored${because(event)}`,
  'machine.phase': (event) => `phase ${field(event, 'from')} → ${field(event, 'to')}${because(event)}`,
  'machine.waits': () => 'the discovery system runs and waits until the machine is accepted',
  'machine.inventory': (event) =>
    `the machine says what it is made of: disks ${field(event, 'disks')}, cards ${field(event, 'cards')}`,
  'machine.restarts': () => 'the machine was told to reboot, because it was accepted',
  'machine.install': (event) =>
    `installation: ${field(event, 'step')} ${field(event, 'state')}${of(event, 'disk', ' on disk ')}${because(event)}`,
  'machine.held': (event) => `held${because(event)}`,
  'machine.conflict': (event) => `two machines claim one identity${because(event)}`,
  'machine.approved': () => 'an operator approved the key of the agent',
  'agent.alive': (event) => `the agent polls${of(event, 'address', ' from ')}`,
  'agent.certificate': () => 'the agent has its certificate',
  'agent.step': (event) => `the agent finished step ${field(event, 'step')}`,
  'agent.held': (event) => `the agent waits${because(event)}`,
  'agent.ended': (event) => `${event.reason?.code} has ended: ${event.reason?.text}`,
  'agent.refused': (event) => `the agent was refused${because(event)}`,
  'agent.left': () => 'the machine shuts down',
};

/** What happened, for people. */
export const textOf = (event: MusterEvent): string =>
  (Object.hasOwn(TEXTS, event.kind) && TEXTS[event.kind]?.(event)) || event.reason?.text || event.kind;

/** The kinds whose fields `octets` and `milliseconds` describe a transfer that ended then. */
const TRANSFERS: ReadonlySet<EventKind> = new Set([
  'tftp.served',
  'tftp.failed',
  'asset.served',
  'asset.cut',
]);

/** How long the transfer took that ended with this event; undefined when it is none. */
export const durationOf = ({ kind, fields }: MusterEvent): number | undefined =>
  TRANSFERS.has(kind) && typeof fields?.milliseconds === 'number' ? fields.milliseconds : undefined;

interface Wait {
  /** Whether the machine waits for this between the two events; the first row that fits counts. */
  readonly when: (before: MusterEvent, after: MusterEvent) => boolean;
  readonly text: (before: MusterEvent) => string;
}

const is = (event: MusterEvent, ...kinds: readonly EventKind[]): boolean => kinds.includes(event.kind);
const stepOf = (event: MusterEvent): string => field(event, 'step');
const client = (event: MusterEvent): string =>
  event.kind.startsWith('dhcp.') || event.kind === 'boot.decision' ? field(event, 'stage') : '';
/** What the machine reported; its phase changes just before. */
const reached = (event: MusterEvent): string =>
  is(event, 'report.believed') ? stepOf(event) : is(event, 'machine.phase') ? field(event, 'to') : '';
const always = (text: string) => (): string => text;

/** What a machine did between two events that follow each other. */
const WAITS: readonly Wait[] = [
  { when: (before) => is(before, 'agent.waiting'), text: always('an operator who approves the key') },
  { when: (before) => is(before, 'agent.held'), text: ({ reason }) => reason?.text ?? 'the end of a hold' },
  { when: (before) => is(before, 'machine.held'), text: ({ reason }) => reason?.text ?? 'an operator' },
  { when: (_, after) => is(after, 'machine.restarts'), text: always('an operator who accepts the machine') },
  {
    when: (_, after) => is(after, 'machine.waits'),
    text: always('kernel and drivers of the discovery system started'),
  },
  {
    when: (_, after) => is(after, 'machine.inventory'),
    text: always('the discovery system looked at its parts'),
  },
  {
    when: (before, after) => is(before, 'dhcp.offer') && is(after, 'dhcp.ack', 'dhcp.noted'),
    text: always('the client chose between the offers that it got'),
  },
  {
    when: (before, after) => is(before, 'dhcp.offer') && is(after, 'dhcp.offer'),
    text: always('the client did not take the offer and asked again'),
  },
  {
    when: (before, after) => is(before, 'dhcp.ack') && is(after, 'tftp.served', 'tftp.failed'),
    text: always('the firmware checked its address and asked for the loader'),
  },
  {
    when: (before, after) => is(before, 'tftp.served') && client(after).startsWith('ipxe'),
    text: always('the loader started and waited for its link'),
  },
  {
    when: (_, after) =>
      is(after, 'boot.script', 'boot.discovery') ||
      (is(after, 'boot.decision') && field(after, 'stage') === 'script'),
    text: always('the loader checked its address and asked for its script'),
  },
  {
    when: (before, after) =>
      is(before, 'boot.script', 'boot.discovery') && is(after, 'asset.served', 'asset.cut'),
    text: always('the loader read its script'),
  },
  {
    when: (_, after) => client(after) === 'none',
    text: always('kernel and drivers started, or the link came up'),
  },
  {
    when: (_, after) => ['kernel', 'starting'].includes(reached(after)),
    text: always('kernel and drivers started, and the initrd got its address'),
  },
  {
    when: (before, after) => is(before, 'report.believed') && is(after, 'asset.served', 'asset.cut'),
    text: always('the initrd asked for the root image'),
  },
  {
    when: (_, after) => is(after, 'config.served', 'config.refused'),
    text: always('the root image was checked and mounted, and the system started'),
  },
  {
    when: (_, after) => reached(after) === 'configured',
    text: always('the system applied its configuration'),
  },
  {
    when: (_, after) => reached(after) === 'ready',
    text: always('the units of the configuration started'),
  },
  {
    when: (_, after) => is(after, 'agent.certificate', 'agent.waiting', 'agent.refused'),
    text: always('the agent made its key and asked for its certificate'),
  },
  { when: (_, after) => is(after, 'agent.alive'), text: always('the agent started and polled') },
  {
    when: (_, after) => is(after, 'agent.step'),
    text: always('the agent carried out its plan'),
  },
  {
    when: (_, after) => is(after, 'cluster.join-token') && after.reason?.code === 'used',
    text: always('kubelet started and got its certificate from the API server'),
  },
];

/** What the machine did between two events; undefined when that is not known. */
export const waitedFor = (before: MusterEvent, after: MusterEvent): string | undefined =>
  WAITS.find(({ when }) => when(before, after))?.text(before);
