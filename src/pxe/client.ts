/** What a DHCP packet says about its client. It is read once per packet and used everywhere. */
import type { Ipv4 } from '../base/ipv4.ts';
import type { Mac } from '../base/mac.ts';
import type { QuirkId } from './firmware/quirks.ts';

/**
 * What the client's software can take next: `pxe` firmware that loads a file by TFTP · `http`
 * firmware that loads a URL (UEFI HTTP boot) · `ipxe` an iPXE that runs scripts by HTTP ·
 * `ipxe-tftp` an iPXE without HTTP · `none` an ordinary DHCP client.
 */
export type BootStage = 'pxe' | 'http' | 'ipxe' | 'ipxe-tftp' | 'none';

/**
 * The user class with which `muster doctor` asks as firmware does. It is answered like an unknown
 * machine, and nothing of it is kept.
 */
export const DOCTOR_CLASS = 'muster-doctor';

export interface BootClient {
  readonly mac: Mac;
  /** From option 97, canonical lower case; absent when missing, all zero or all one. */
  readonly uuid?: string;
  /**
   * The first known code of option 93, with 9 read as 7 (quirk arch-9-is-x64); absent when option
   * 93 is missing or has no known code.
   */
  readonly archCode?: number;
  readonly arch?: 'x86_64' | 'aarch64';
  readonly firmware?: 'bios' | 'uefi';
  readonly stage: BootStage;
  readonly vendorClass?: string;
  readonly userClass?: string;
  /** giaddr; absent when the packet did not pass a relay. */
  readonly relay?: Ipv4;
  /** Firmware whose replies need a different shape. */
  readonly family?: 'raspberry-pi' | 'u-boot';
  /** iPXE's version from its option 175.235, e.g. "1.0.1". */
  readonly ipxeVersion?: string;
  /** The firmware quirks that its packet shows; for people. */
  readonly quirks?: readonly QuirkId[];
}
