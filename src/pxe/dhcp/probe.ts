/**
 * Looking ahead whether free addresses are really free, without privilege: a datagram to port 9
 * makes the kernel ask by ARP, and /proc/net/arp shows who answered. A few addresses of each pool
 * are kept looked at; no OFFER waits for it.
 */
import { type Millis, millis } from '../../base/duration.ts';
import { type Ipv4, parseIpv4 } from '../../base/ipv4.ts';
import { type Mac, parseMac } from '../../base/mac.ts';

/** Addresses of one network that are kept looked at. */
export const LOOK_AHEAD = 16;
/** The kernel asks three times, a second apart (neigh/default/mcast_solicit). */
export const ASK: Millis = millis(3_200);
/**
 * An entry of a machine that left is still there and looks the same; asked again, the kernel gives
 * it 5 s and three questions more before it is dropped (delay_first_probe_time, ucast_solicit).
 * Only what outlives that is a machine.
 */
export const CONFIRM: Millis = millis(9_500);

/** Complete entries of /proc/net/arp on an interface: address → hardware address. */
export function parseArp(text: string, on: string): ReadonlyMap<Ipv4, Mac> {
  const found = new Map<Ipv4, Mac>();
  for (const line of text.split('\n').slice(1)) {
    const [address, type, flags, hardware, , device] = line.trim().split(/ +/);
    const ip = address === undefined ? undefined : parseIpv4(address);
    const mac = hardware === undefined ? undefined : parseMac(hardware);
    // ATF_COM: the entry has an answer.
    const complete = (Number.parseInt(flags ?? '0', 16) & 2) !== 0;
    if (ip !== undefined && mac && type === '0x1' && complete && device === on && mac !== '00:00:00:00:00:00')
      found.set(ip, mac);
  }
  return found;
}

export interface Asked {
  readonly address: Ipv4;
  /** When the finding is final. */
  readonly due: Millis;
  /** Somebody seemed to be there at first look. */
  readonly suspect: boolean;
}

export interface Findings {
  readonly free: readonly Ipv4[];
  readonly taken: readonly { readonly address: Ipv4; readonly mac: Mac }[];
  /** Still being asked, and those to be asked once more. */
  readonly pending: readonly Asked[];
  readonly askAgain: readonly Ipv4[];
}

/** What an ARP table says about the addresses that were asked. */
export function judge(asked: readonly Asked[], arp: ReadonlyMap<Ipv4, Mac>, now: Millis): Findings {
  const free: Ipv4[] = [];
  const taken: { address: Ipv4; mac: Mac }[] = [];
  const pending: Asked[] = [];
  const askAgain: Ipv4[] = [];
  for (const one of asked) {
    const mac = arp.get(one.address);
    if (one.due > now) pending.push(one);
    else if (mac === undefined) free.push(one.address);
    else if (one.suspect) taken.push({ address: one.address, mac });
    else {
      pending.push({ address: one.address, due: (now + CONFIRM) as Millis, suspect: true });
      askAgain.push(one.address);
    }
  }
  return { free, taken, pending, askAgain };
}
