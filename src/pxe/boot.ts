/**
 * The seam between the protocol servers (DHCP, TFTP, HTTP) and what is known of machines. The
 * servers ask; the answer is computed in memory, in constant time, and carries its reason.
 * Implemented in `src/pxe/decide/boot-service.ts`.
 */
import type { Ipv4 } from '../base/ipv4.ts';
import type { Mac } from '../base/mac.ts';
import type { BootSession, Identity, MachineReport } from '../machines/machine.ts';
import type { PxeOptions } from '../resources/kinds.ts';
import type { Write } from '../store/store.ts';
import type { BootClient } from './client.ts';
import type { BootDecision } from './decide/decision.ts';
import type { ServedNetwork } from './network.ts';

/**
 * Which packet asks: an OFFER is memory only; an ACK becomes durable; `boot-server` is PXE's own
 * request to port 4011.
 */
export type BootStep = 'offer' | 'ack' | 'boot-server';

/** What DHCP puts into its reply. */
export interface BootAnswer {
  readonly decision: BootDecision;
  /** Machine name when recognised or recorded, else the MAC: subject of events. */
  readonly subject: string;
  /** File name (TFTP) or URL (HTTP) for siaddr/file/66/67; absent when the decision gives none. */
  readonly bootFile?: string;
  readonly session?: string;
  /** Reply style for this client, merged from machine, vendor class and network. */
  readonly pxe: PxeOptions;
  /** The machine's own address on this network. */
  readonly reservedAddress?: Ipv4;
  readonly hostname?: string;
  /** To be committed in the same transaction as the lease, before the ACK leaves. */
  readonly writes: readonly Write[];
}

/** Facts that a loader's HTTP request adds to what DHCP knew. */
export interface ScriptRequest {
  readonly session: string | undefined;
  readonly identity: Identity;
  /** The MAC of the interface that booted (iPXE's netX). */
  readonly bootMac: Mac | undefined;
  readonly arch?: 'x86_64' | 'aarch64';
  readonly firmware?: 'bios' | 'uefi';
  /** The machine's address as the connection shows it. */
  readonly peer: string;
  /** Base URL as the client reached us, e.g. `http://10.77.0.1:8080`. */
  readonly baseUrl: string;
  readonly network: ServedNetwork | undefined;
}

/**
 * The boot script to send, already text. `retryAfter` is set when the machine must come back: 503.
 */
export interface ScriptAnswer {
  readonly decision: BootDecision;
  readonly session?: BootSession;
  readonly script: string;
}

/** Documents of a first boot, by the name under which they are fetched. */
export type ConfigFile = 'user-data' | 'meta-data' | 'vendor-data' | 'network-config' | 'ignition';

export type ConfigAnswer =
  | { readonly ok: true; readonly contentType: string; readonly body: string; readonly subject: string }
  /** `wait`: 503 with Retry-After (not ready yet). `gone`: 404, the session is unknown or over. */
  | { readonly ok: false; readonly status: 'wait' | 'gone'; readonly why: string; readonly subject?: string };

export type ReportAnswer =
  | { readonly believed: true; readonly subject: string }
  | { readonly believed: false; readonly why: string };

export interface BootService {
  /**
   * For each DHCP packet of a boot client, and of ordinary clients (their reservation and host
   * name). Synchronous, memory only.
   */
  answer(client: BootClient, network: ServedNetwork, step: BootStep): BootAnswer;
  /**
   * Whose document reserves this address on this network: a machine name, or undefined. Constant
   * time; DHCP asks it before an address of a pool is given to somebody else.
   */
  reservedFor?(address: Ipv4, network: ServedNetwork): string | undefined;
  /**
   * For the script: opens or continues the session, records what iPXE said; resolves when the
   * session is durable.
   */
  script(request: ScriptRequest): Promise<ScriptAnswer>;
  /** A first-boot document of a live session, rendered. Synchronous, memory only. */
  config(session: string, file: ConfigFile, baseUrl: string): ConfigAnswer;
  /**
   * As {@link config}, for the one document that carries secrets (`delivery: inline`): once for
   * each session, and only to an address of the machine's own; resolves when it is durable that it
   * was served. Undefined for every other document and machine.
   */
  inline?(
    session: string,
    file: ConfigFile,
    asked: { readonly baseUrl: string; readonly peer: string },
  ): Promise<ConfigAnswer> | undefined;
  /** Whether an Image names this file. Constant time. */
  needs(sha256: string): boolean;
  /** A report; resolves when what it changed is durable. */
  report(session: string, report: MachineReport, peer: string): Promise<ReportAnswer>;
}
