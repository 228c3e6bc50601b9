/**
 * Events: the kinds, the shape of an event, and the interface of the log. Events are append-only,
 * bounded per subject, and never a source of state.
 */
import type { Millis } from '../base/duration.ts';
import type { Actor } from './actor.ts';

/** Why something was decided: a stable code from a table and a sentence for people. */
export interface Reason {
  readonly code: string;
  readonly text: string;
}

/**
 * Every kind of event; `docs/events.md` is generated from this table.
 */
export const EVENT_KINDS = {
  'dhcp.offer': 'An address (or, as proxy, a boot file) was offered.',
  'dhcp.ack':
    'A lease was confirmed and is durable, or the store cannot write and nobody else can get the address.',
  'dhcp.nak': 'A request was refused.',
  'dhcp.decline':
    'A client found that its address is in use, and Muster does not lease the address for a while. A client that declines too many addresses gets none for a while.',
  'dhcp.release': 'A client gave its address back.',
  'dhcp.noted':
    'A message of a booting client got no answer, e.g. because the client chose another server; the reason says why.',
  'dhcp.exhausted': 'No free address was left for a client.',
  'dhcp.store':
    'A lease could not be made durable, or was not offered because of that; the client was not answered and will ask again.',
  'dhcp.conflict': 'A probe found a free address in use.',
  'boot.decision': 'Muster decided what a booting machine gets; the reason says why.',
  'boot.script': 'A boot script was served.',
  'boot.discovery': 'An unknown machine was given the discovery system.',
  'boot.session': 'A boot session was opened.',
  'config.served': 'A configuration document was served.',
  'config.secrets':
    "A machine's secrets were served with its configuration (delivery: inline). This happens once for each boot.",
  'config.refused': 'A configuration document was requested and not served.',
  'asset.served': 'A whole file was served.',
  'asset.cut': 'A client ended the download of a file before it had all of it.',
  'tftp.served': 'A file was sent by TFTP.',
  'tftp.failed': 'A TFTP transfer ended early or a request was refused.',
  'report.believed': "A machine's report moved its phase.",
  'report.disbelieved': 'A report without a live session of that machine was recorded and ignored.',
  'machine.discovered': 'An unknown machine was seen for the first time.',
  'machine.waits': 'An unknown machine runs the discovery system and waits to be accepted.',
  'machine.inventory':
    'An unknown machine said in the discovery system what it is made of. Nobody has confirmed it.',
  'machine.restarts': 'A machine in the discovery system was told to reboot, because it was accepted.',
  'machine.life':
    'An operator took a machine out of use, brought it back, or retired it; the code is the state, the text says why.',
  'machine.accepted': 'An operator accepted a machine.',
  'machine.replaced': 'A machine got the hardware of another one, by an operator or as a spare.',
  'machine.approved': "An operator confirmed the code on a machine's console: its key got its certificate.",
  'machine.approval-refused': "An operator typed a code that is not that of the machine's console.",
  'machine.phase': "A machine's phase changed.",
  'machine.held': 'A machine is held; the reason says how to release it.',
  'machine.condition':
    'A machine became silent, off or failing, or is so no more (docs/conditions.md); the fields say which.',
  'site.concern':
    'Something began to need an operator, or needs one no more; `muster status` lists what does. Machines have `machine.condition`.',
  'machine.power':
    'An order about the power of a machine was given, or ended; the reason says how (docs/power.md).',
  'machine.recovery':
    'A machine that hangs is switched off and on again, or why it is not (`power.recover` of its Profile).',
  'machine.lost':
    'A machine of a cluster is lost, and what becomes of it: a spare takes its place, or why not (`spares` of its Cluster).',
  'machine.bmc':
    "Muster's own account on a BMC was made or got a new password, or that did not work; the reason says which (docs/power.md).",
  'machine.install':
    'A machine installs a system on its disk: which step began or ended; the reason says why it does not go on.',
  'machine.conflict': 'Two machines claim one identity.',
  'host.take-over':
    'This boot host acts after another one; the reason says why that one ceased, the fields how long nobody answered.',
  'host.joined': 'A new boot host got the vault key and the settings to stand by; the fields say from where.',
  'host.join-refused':
    'Somebody asked to join as a boot host with a code that does not count: wrong, used, too old or called off.',
  'clock.doubted':
    "The boot host's clock is in doubt; the reason says which other clocks disagree. Nothing is issued, rotated or deleted meanwhile.",
  'clock.proved': "The boot host's clock is right again, as other clocks show.",
  'signer.answered': 'The signer answered a request of the server; only the log of the signer has these.',
  'signer.refused': 'The signer refused a request of the server; only the log of the signer has these.',
  'signer.approved': 'A person at the host approved a machine for the signer.',
  'signer.withdrawn': 'A person at the host took back the approval of a machine.',
  'signer.allowed': 'A person at the host let the signer give out or take private keys for five minutes.',
  'pki.imported': 'An operator brought a CA; it signs at once, or after the next rotation.',
  'pki.redated':
    'A CA began in the future, because the clock was wrong when it was made. It has another certificate for the same key.',
  'pki.resealed': 'The private keys in the store were sealed again with the first key of the vault.',
  'pki.renewal':
    "An operator ordered that a machine's certificates, or those of all machines of a cluster, are replaced.",
  'pki.ends-soon':
    'A CA or a certificate ends within 30 days (reason soon) or 7 days (urgent), or within a part of a short life, and should have been renewed or rotated.',
  'certificate.refused': "A machine's request for a certificate was refused.",
  'cluster.founding': 'The founding of etcd advanced; the reason says which step.',
  'cluster.snapshot': 'A snapshot of etcd was taken, or it or a copy of it failed; the reason says which.',
  'cluster.etcd':
    'etcd raised or ended an alarm, its database is near its quota, a member lags, or it was compacted or defragmented; the reason says which.',
  'cluster.rollout': 'A rolling restart moved on to a machine, or has stalled.',
  'cluster.later-keys':
    'A machine has keys that this store does not know: it was restored to before a rotation. The cluster is held until an operator decides.',
  'cluster.restored': 'The CAs and tokens that a restored snapshot of etcd brought back were put right.',
  'cluster.change':
    'A change of a cluster, of its agents, or of Muster itself came to a step, was held, paused, or ended; or a machine has shown the evidence of a step, or waits for a hook.',
  'cluster.kubeconfig': 'A kubeconfig was made for a user.',
  'cluster.etcd-client': 'A client certificate of etcd was made for a user.',
  'cluster.join-token':
    'A machine received the token with which its kubelet requests a certificate, or has that certificate now.',
  'cluster.request-approved':
    "A certificate request of a machine's kubelet was approved, because it agrees with the documents.",
  'cluster.request-denied':
    "A request for the certificate of a cluster's machine was denied; the reason says how it differs from the documents.",
  'cluster.request-alarm':
    "Someone other than Muster approved a certificate request that does not come from the machine that it names. Its sender can now act in the machine's name.",
  'cluster.node-settings':
    "A node's labels and taints were set to those of its Cluster, or the API server refused them; the reason says which.",
  'agent.certificate': "A machine's agent got its certificate for a ticket.",
  'agent.waiting':
    "The key of a machine's agent waits for an operator, who compares the code on its console.",
  'agent.tpm':
    "A machine's TPM proved itself and was recorded: only this TPM gets the machine's certificates from now on.",
  'agent.data-key':
    'The agent of a machine got the key of its encrypted data filesystem (`encrypt: boot-host`).',
  'agent.renewed':
    'The certificate of an agent had ended, e.g. because this boot host was away, and the agent got another one for the same key.',
  'agent.refused': 'A ticket or a certificate of an agent was refused; the reason says why.',
  'agent.alarm':
    'Two systems hold the credentials of one machine; an operator decides with `muster machine rearm`.',
  'agent.rearmed':
    'An operator rearmed a machine, which ends its alarm if there was one; the fields say what happened to its certificate.',
  'agent.quarantined': 'An operator put a machine in quarantine; the reason says why.',
  'agent.released': 'An operator ended the quarantine of a machine.',
  'agent.alive': "A machine's agent polled for the first time in this boot.",
  'agent.upgraded': 'A machine runs another agent, which arrived while it ran.',
  'agent.taken-back':
    'A machine did not keep the agent that the boot host gave it, and runs the old one; the reason says why.',
  'agent.left':
    "A machine's agent reported that the machine shuts down, so that its next boot does not have to wait.",
  'agent.revoked':
    "The document of a machine was deleted, or its cluster no longer lists it. Its agent's certificate is revoked.",
  'agent.many-gone':
    'More than half of all machines with certificates disappeared from the documents at once. Their agents are refused, but no certificate is revoked.',
  'agent.step': "A machine's agent reached a step of its plan.",
  'agent.boot-disk':
    "State of a machine's boot disk: it contains the system that the machine runs, or the reason says why not.",
  'agent.secrets':
    "A machine's agent put the values of Secrets in place; the event names them, never values.",
  'agent.held': "A machine's agent waits; the reason says why.",
  'agent.ended':
    'A program of the cluster has ended on a machine; the reason has the last complaint that it wrote.',
  'document.applied': 'A document was created or changed.',
  'document.deleted': 'A document was deleted.',
  'document.invalid':
    'A file of the configuration directory is invalid; its last valid version stays in force.',
  'operator.login': 'An operator logged in over HTTPS.',
  'operator.login-refused': 'A log-in was refused.',
  'operator.refused':
    'A request for a change was refused, because nobody was logged in with it or it came from another site; the subject is the address that sent it.',
  'operator.action':
    'An operator asked for a change, or for a secret; the fields say what, the reason what became of it.',
  'event.limited':
    'More events of a kind that packets cause came than are kept; the fields say how many were left out.',
  'audit.alarm': 'The security log was changed or rolled back; the reason says what shows that.',
} as const;

export type EventKind = keyof typeof EVENT_KINDS;

export interface MusterEvent {
  /** Increases by one with each event of this process's log. */
  readonly sequence: number;
  readonly at: Millis;
  readonly kind: EventKind;
  /** The name of the machine, the MAC of an unknown machine, or a document as `Kind/name`. */
  readonly subject: string;
  /** The public name of the boot session; who records an event gives its id. */
  readonly session?: string;
  readonly network?: string;
  readonly reason?: Reason;
  /** Details. They contain no secrets. */
  readonly fields?: Readonly<Record<string, string | number | boolean>>;
  /** The operator whose request caused it. */
  readonly actor?: Actor;
}

export type NewEvent = Omit<MusterEvent, 'sequence' | 'at' | 'actor'>;

/** The writing side. Never blocks, never throws. */
export interface EventSink {
  record(event: NewEvent): void;
}

/** Receives each event with the JSON text that it is stored as. */
export type EventListener = (event: MusterEvent, text: string) => void;

/** The writing and the reading side. */
export interface EventLog extends EventSink {
  /** Events that match all fields of `filter`, newest last. `after`: a sequence number. */
  list(filter: {
    readonly subject?: string;
    readonly after?: number;
    readonly limit?: number;
  }): readonly MusterEvent[];
  /** Calls `listener` with each new event. Returns a function that ends the subscription. */
  subscribe(listener: EventListener): () => void;
}
