/** BMCs in memory, for tests of what is above them. */
import { type Bmc, BmcFault, type BootOnce, type ConsoleUse, type PowerState } from '../../../src/bmc/bmc.ts';
import type { Protocols } from '../../../src/bmc/connect.ts';
import type { IpmiAccess } from '../../../src/bmc/ipmi/client.socket.ts';
import type { RedfishAccess } from '../../../src/bmc/redfish/client.socket.ts';

/** What it says of its machine. */
export const SHOWN = {
  inventory: {
    inventory: { manufacturer: 'Maker', serial: 'S-1', firmware: [{ name: 'BMC', version: '1.0' }] },
  },
  sensors: { sensors: [{ name: 'CPU', kind: 'temperature', unit: '°C', value: 47, state: 'ok' }] },
  log: { log: [{ at: 1_700_000_000_000, text: 'power: on' }] },
} as const;

/** A BMC that does what it is told, unless a test changes it. */
export class MemoryBmc {
  power: PowerState = 'off';
  boot: BootOnce = { target: 'none', uefi: true, persistent: false };
  readonly did: string[] = [];
  /** Open sessions. */
  sessions = 0;
  password = 'right';
  /** The password of Muster's own account, once that was made. */
  own: string | undefined;
  /** Accounts that were switched off. */
  readonly off: string[] = [];
  pin = 'a'.repeat(64);
  systems = 1;
  speaks: readonly ('redfish' | 'ipmi')[] = ['redfish', 'ipmi'];
  /** Thrown by the next question. */
  fault: BmcFault | undefined;
  /** Who has the serial console, and what was typed into it. */
  console: ConsoleUse | undefined;
  typed = '';
  /** Called after a power command. */
  after: () => void = () => {};

  session(protocol: 'redfish' | 'ipmi'): Bmc {
    this.sessions++;
    const ask = <T>(work: () => T) => {
      const { fault } = this;
      this.fault = undefined;
      return fault ? Promise.reject<T>(fault) : Promise.resolve(work());
    };
    return {
      protocol,
      power: () => ask(() => this.power),
      order: (order) =>
        ask(() => {
          this.did.push(order);
          this.power = order === 'off' || order === 'shut-down' ? 'off' : 'on';
          this.after();
        }),
      boot: () => ask(() => this.boot),
      bootOnce: (target, { uefi }) =>
        ask(() => {
          this.did.push(`boot ${target}`);
          this.boot = { target, uefi, persistent: false };
        }),
      setAccount: ({ password }) =>
        ask(() => {
          this.own = password;
        }),
      switchOff: (user) => ask(() => void this.off.push(user)),
      identify: (seconds) => ask(() => void this.did.push(`lamp ${seconds}`)),
      show: (view) => ask(() => SHOWN[view]),
      console: (use: ConsoleUse) =>
        ask(() => {
          if (this.console) throw new BmcFault('busy', 'another session has the console');
          this.console = use;
          return {
            type: (octets: Buffer) => {
              this.typed += octets.toString();
              return true;
            },
            close: async () => {
              this.console = undefined;
            },
          };
        }),
      close: async () => void this.sessions--,
    };
  }
}

/** All BMCs by address; one that is not there does not answer. */
export function bmcsOf(bmcs: ReadonlyMap<string, MemoryBmc>): Protocols & {
  /** Every log-in: `PROTOCOL ADDRESS:PORT USER`. */
  readonly tried: readonly string[];
} {
  const tried: string[] = [];
  const open = (protocol: 'redfish' | 'ipmi', { address, port, user, password }: IpmiAccess): MemoryBmc => {
    tried.push(`${protocol} ${address}:${port ?? ''} ${user}`);
    const bmc = bmcs.get(address);
    if (!bmc?.speaks.includes(protocol)) throw new BmcFault('unreachable', 'nobody answers');
    const right = user === 'muster' && bmc.own !== undefined ? bmc.own : bmc.password;
    if (right !== password || bmc.off.includes(user)) throw new BmcFault('password', 'the password is wrong');
    return bmc;
  };
  return {
    tried,
    async ipmi(access) {
      return open('ipmi', access).session('ipmi');
    },
    async redfish(access: RedfishAccess) {
      const { trust, system } = access;
      const shown = bmcs.get(access.address)?.pin;
      const pin = 'ca' in trust ? undefined : trust.pin;
      if (shown !== undefined && pin !== undefined && pin !== shown)
        throw new BmcFault('pin-changed', 'it shows another certificate');
      if ('ca' in trust && !trust.ca.includes('CERTIFICATE')) throw new BmcFault('pin-changed', 'no CA');
      const bmc = open('redfish', access);
      if (bmc.systems > 1 && system === undefined) throw new BmcFault('refused', 'it has 2 systems');
      trust.pinned?.(bmc.pin);
      if (system !== undefined) tried.push(`system ${system}`);
      return bmc.session('redfish');
    },
  };
}

/** A vault in memory. */
export function memoryVault() {
  const kept = new Map<string, string>();
  return {
    kept,
    get: async (name: string) => kept.get(name),
    put: async (name: string, text: string) => void kept.set(name, text),
  };
}
