/** Who is booting, as far as its packets say: derived once, used everywhere. */
import type { Ipv4 } from '../base/ipv4.ts';
import type { Mac } from '../base/mac.ts';

/**
 * What the client's software is able to take next: `pxe` firmware that loads a file by TFTP ·
 * `http` firmware that loads a URL (UEFI HTTP boot) · `ipxe` an iPXE that runs scripts by HTTP ·
 * `ipxe-tftp` an iPXE without HTTP · `none` an ordinary DHCP client.
 */
export type BootStage = 'pxe' | 'http' | 'ipxe' | 'ipxe-tftp' | 'none';

export interface BootClient {
  readonly mac: Mac;
  /** From option 97, canonical lower case; absent when missing, all zero or all one. */
  readonly uuid?: string;
  /**
   * First known code of option 93, 9 read as 7 (netboot-protocols §B.2); undefined when absent or
   * unknown.
   */
  readonly archCode?: number;
  readonly arch?: 'x86_64' | 'aarch64';
  readonly firmware?: 'bios' | 'uefi';
  readonly stage: BootStage;
  readonly vendorClass?: string;
  readonly userClass?: string;
  /** giaddr, or absent. */
  readonly relay?: Ipv4;
  /** Firmware that needs answers of a shape of its own. */
  readonly family?: 'raspberry-pi' | 'u-boot';
  /** iPXE's version as its option 175.235 says it, e.g. "1.0.1". */
  readonly ipxeVersion?: string;
  /**
   * Ids of the firmware quirks that were met while reading this client (src/pxe/dhcp/quirks.ts);
   * for people.
   */
  readonly quirks?: readonly string[];
}
