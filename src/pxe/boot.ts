/**
 * The interface between the protocol servers (DHCP, TFTP, HTTP) and what is known about machines.
 * Answers to DHCP are computed in memory, in constant time, and have a reason. Implemented in
 * `src/pxe/decide/boot-service.ts`.
 */
import type { Ipv4 } from '../base/ipv4.ts';
import type { Mac } from '../base/mac.ts';
import type { BootSession, Identity, MachineReport } from '../machines/machine.ts';
import type { DhcpOption } from '../resources/dhcp-options.ts';
import type { PxeOptions } from '../resources/kinds.ts';
import type { Write } from '../store/store.ts';
import type { BootClient } from './client.ts';
import type { BootDecision } from './decide/decision.ts';
import type { ServedNetwork } from './network.ts';

/**
 * The packet that is answered: `offer` is kept in memory, `ack` is stored before it is sent,
 * `boot-server` answers the PXE request to port 4011.
 */
export type BootStep = 'offer' | 'ack' | 'boot-server';

/** What DHCP writes into its reply. */
export interface BootAnswer {
  readonly decision: BootDecision;
  /** Subject of events: the machine's name, or the MAC when there is no record. */
  readonly subject: string;
  /** File name (TFTP) or URL (HTTP) for siaddr, file and options 66 and 67. */
  readonly bootFile?: string;
  readonly session?: string;
  /** PXE options for this client, merged from network, vendor class and machine. */
  readonly pxe: PxeOptions;
  /** The machine's reserved address on this network. */
  readonly reservedAddress?: Ipv4;
  readonly hostname?: string;
  /** DHCP options of the Machine document. */
  readonly options?: readonly DhcpOption[];
  /** A Machine document names the client. */
  readonly documented?: true;
  /** To be committed in one transaction with the lease, before the ACK is sent. */
  readonly writes: readonly Write[];
}

/** What a loader's HTTP request adds to what DHCP knew. */
export interface ScriptRequest {
  /** The public name of a boot session, from the URL. */
  readonly boot: string | undefined;
  readonly identity: Identity;
  /** The loader that runs the script; absent: iPXE. */
  readonly loader?: 'grub';
  /** The MAC of the interface that booted (iPXE's netX). */
  readonly bootMac: Mac | undefined;
  readonly arch?: 'x86_64' | 'aarch64';
  readonly firmware?: 'bios' | 'uefi';
  /** The machine's address as the connection shows it. */
  readonly peer: string;
  /** The URL at which the client reaches us, e.g. `http://10.77.0.1:8080`. */
  readonly baseUrl: string;
  readonly network: ServedNetwork | undefined;
}

/** The boot script to send, and the decision that it carries out. */
export interface ScriptAnswer {
  readonly decision: BootDecision;
  readonly session?: BootSession;
  readonly script: string;
}

/** Documents of a first boot, by the names under which they are fetched. */
export type ConfigFile = 'user-data' | 'meta-data' | 'vendor-data' | 'network-config' | 'ignition';

/** How a first-boot document is asked for. */
export interface ConfigAsked {
  /** The URL at which the client reaches us. */
  readonly baseUrl: string;
  /** The client's address as the connection shows it. */
  readonly peer: string;
}

/** A first-boot document, or why there is none. */
export type ConfigAnswer =
  | { readonly ok: true; readonly contentType: string; readonly body: string; readonly subject: string }
  /** `wait`: not ready, 503 with Retry-After. `gone`: 404, the session is unknown or over. */
  | { readonly ok: false; readonly status: 'wait' | 'gone'; readonly why: string; readonly subject?: string };

/** Whether a report was believed, and if not, why. */
export type ReportAnswer =
  | { readonly believed: true; readonly subject: string }
  | { readonly believed: false; readonly why: string };

/** Whether lines of a console were kept; `refused`: the session or the address is not believed. */
export type ConsoleAnswer = 'kept' | 'refused' | 'later';

/**
 * What a machine in the discovery system does next. `gone`: its session is over, and it starts
 * over.
 */
export type DiscoveryAnswer =
  | {
      readonly do: 'wait' | 'report' | 'reboot' | 'wipe' | 'test' | 'rescue' | 'off' | 'install';
      readonly name: string;
    }
  | { readonly do: 'gone' };

/** An order to wipe or to test; `refused`: the session or the address is not believed. */
export type WipeOrderAnswer = { readonly text: string } | 'refused';

/** What becomes of a report about a wipe or a test; see {@link InventoryAnswer}. */
export type WipeReportAnswer = 'kept' | 'refused' | 'unreadable';

/** Who may log in to a rescue system, as lines of text, or as {@link WipeReportAnswer}. */
export type RescueAnswer = { readonly text: string } | 'refused' | 'unreadable';

/** What a machine says that installs a system on its disk, and how it reaches us. */
export interface InstallAsked extends ConfigAsked {
  /** `pick` with its disks, `failed CODE TEXT`, or `STEP begin|progress|end TEXT`. */
  readonly text: string;
}

/**
 * What an installing machine does next. `disk`: takes that disk, if `mode` allows what it finds
 * there, and the list with that hash. `wait`: asks again later. `again`: begins again.
 */
export type InstallAnswer =
  | { readonly do: 'go' | 'reboot' | 'again' | 'gone' | 'unknown' }
  | { readonly do: 'wait'; readonly code: string; readonly text: string }
  | {
      readonly do: 'disk';
      readonly name: string;
      readonly serial: string;
      readonly mode: 'blank' | 'released' | 'claimed';
      readonly sha256: string;
    };

/** `refused`: the session or the address is not believed; `later`: too many reports at once. */
export type InventoryAnswer = 'kept' | 'refused' | 'later' | 'unreadable';

/** Answers the protocol servers. */
export interface BootService {
  /**
   * Answers a DHCP packet. Ordinary clients get their reservation and host name. Synchronous and in
   * memory.
   */
  answer(client: BootClient, network: ServedNetwork, step: BootStep): BootAnswer;
  /**
   * Whether no document describes this client, by hardware address or UUID. Constant time: DHCP
   * asks before it opens a boot session for a client that gets no address.
   */
  isStranger?(client: BootClient): boolean;
  /**
   * The name of the machine whose document reserves this address on this network, if any. Constant
   * time: DHCP asks before it gives out an address of a pool.
   */
  reservedFor?(address: Ipv4, network: ServedNetwork): string | undefined;
  /**
   * How many documented machines have no reserved address on this network. Constant time: DHCP asks
   * before it gives an unknown client an address of a pool.
   */
  withoutReservation?(network: ServedNetwork): number;
  /**
   * Makes the boot script: opens or continues the session and records what iPXE sent. Resolves when
   * the session is durable.
   */
  script(request: ScriptRequest): Promise<ScriptAnswer>;
  /**
   * Renders a first-boot document of a live session, for an address of its machine. Synchronous and
   * in memory.
   */
  config(session: string, file: ConfigFile, asked: ConfigAsked): ConfigAnswer;
  /**
   * As {@link config}, for the one document that contains secrets (`delivery: inline`). It is
   * served once per session, and only to an address of the machine; resolves when that is durable.
   * Undefined for every other document and machine.
   */
  inline(session: string, file: ConfigFile, asked: ConfigAsked): Promise<ConfigAnswer> | undefined;
  /** Whether an Image names the file with this hash. Constant time. */
  needs(sha256: string): boolean;
  /** Takes a report of a machine. Resolves when its changes are durable. */
  report(session: string, report: MachineReport, peer: string): Promise<ReportAnswer>;
  /** What a machine in the discovery system does next. In memory and in constant time. */
  waits(session: string): DiscoveryAnswer;
  /** Takes what an installing machine says. Resolves when its changes are durable. */
  install(session: string, asked: InstallAsked): Promise<InstallAnswer>;
  /** What is written to the disk, one extent a line; undefined for another session or address. */
  installList(session: string, asked: ConfigAsked): Promise<string | undefined>;
  /** The octets of the extent that begins at `at`. */
  installExtent(session: string, at: number, asked: ConfigAsked): Promise<Buffer | undefined>;
  /** Takes what a machine in the discovery system says it is made of. */
  inventory(session: string, text: string, peer: string): Promise<InventoryAnswer>;
  /** What a machine wipes; resolves when it is durable that it has begun. */
  wipeOrder(session: string, peer: string): Promise<WipeOrderAnswer>;
  /** Takes the report of a wipe; resolves when its certificate is durable. */
  wipeReport(session: string, text: string, peer: string): Promise<WipeReportAnswer>;
  /** What a machine tests; resolves when it is durable that it has begun. */
  testOrder(session: string, peer: string): Promise<WipeOrderAnswer>;
  /** Takes what a machine measured; resolves when that is durable. */
  testReport(session: string, text: string, peer: string): Promise<WipeReportAnswer>;
  /**
   * Takes the key of the SSH server of a rescue system. Resolves when it is durable that the rescue
   * has begun.
   */
  rescue(session: string, text: string, peer: string): Promise<RescueAnswer>;
  /**
   * Keeps lines of a machine's console. `later`: it sends too much, and has to try again later.
   *
   * @throws {MusterError} E_USAGE or E_TOO_LARGE for a form that is not as it should be
   */
  console(session: string, form: ReadonlyMap<string, string>, peer: string): Promise<ConsoleAnswer>;
}
