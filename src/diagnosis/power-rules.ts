/**
 * Verdicts about orders of power: each name with which an order ends that is not proved
 * (src/bmc/order.ts).
 */
import { type EndName, NAMES } from '../bmc/order.ts';
import { NOTHING, type ObservedBoot, type Shown, shown } from './observe.ts';

/** What is behind a name, and what ends it. What became of an order alone is no trouble. */
const POWER: Readonly<
  Record<Exclude<EndName, `order-${string}`>, { readonly about: string; readonly remedy: string }>
> = {
  'bmc-unreachable': {
    about:
      'Nothing answered at the address of `spec.bmc` for a minute: the BMC has no power or another address, a firewall is between, or its protocol is switched off.',
    remedy:
      'Compare `spec.bmc` of the Machine with the address that the BMC has; `muster power status NAME` asks again.',
  },
  'bmc-state-unknown': {
    about:
      'The BMC answered, and did not say the same state twice in a row: it starts, is updated, or is busy. Nothing was switched, because a machine that is not known to be off may run.',
    remedy:
      'Wait some minutes, and look with `muster power status NAME`. A BMC that stays so needs a restart by hand.',
  },
  'bmc-refused': {
    about:
      'The BMC refused the order, the evidence has its words: the account lacks the right, several systems are behind one BMC and `spec.bmc.system` names none, or its firmware does not know the order.',
    remedy: 'Give the account the right to control power; the evidence says what else is missing.',
  },
  'bmc-locked-out': {
    about:
      'The BMC refused user and password. Muster tries a refused log-in twice and then no more, because many BMCs lock an account for everybody after three to five.',
    remedy:
      'Write the right password with `muster secret put`, or correct `spec.bmc.credentials`; both are tried at once. `muster power forget NAME` has the same one tried again.',
  },
  'pin-changed': {
    about:
      'The BMC shows another certificate than before, or than its document says. Its board or its certificate was replaced, or somebody stands between. No password was sent.',
    remedy:
      'Find out why it changed. `muster power forget NAME` accepts the next one; where the document names one, correct it.',
  },
  'sessions-exhausted': {
    about:
      'The BMC has room for a few sessions, and others have left theirs open; it forgets them after minutes.',
    remedy: 'Close what else speaks with the BMC, wait until its sessions end, and repeat the order.',
  },
  'bmc-accepted-nothing-started': {
    about:
      'The BMC accepted to switch the machine on, also a second and a third time, and its state stays off: a fault of its power supply, a latched fault, or a BMC that hangs.',
    remedy: 'Look at the event log of the BMC and at the machine; a BMC that hangs is restarted by hand.',
  },
  'still-on': {
    about: 'The BMC accepted to switch the machine off, and it stays on; or its system does not shut down.',
    remedy: '`muster power off NAME --now` takes the power at once. If that did not help, go to the machine.',
  },
  'boot-once-ignored': {
    about:
      'The machine booted from elsewhere than it was told to, or its BMC did not keep it: the boot mode does not fit the target, the firmware ignores the BMC, or it forgot the target.',
    remedy:
      'Repeat it with `muster power cycle NAME --boot network`, which sets both within seconds. If it is ignored again, put the network first in the boot order of the firmware.',
  },
  'wrong-machine-booted': {
    about:
      'Nothing was heard of the machine, and another one began to boot that nobody had ordered to: the addresses or cables of two BMCs are exchanged, or the Machine lacks a hardware address.',
    remedy:
      '`muster machine identify NAME` lights the lamp of the machine that this BMC powers. Correct `spec.bmc` or `spec.macs`.',
  },
  'post-stuck': {
    about:
      'The machine is on, also after a forced restart and after its power was off for ten seconds, and asked for no boot: it hangs in its self-test or its setup, or its network card does not boot.',
    remedy: 'Look at its screen, or at the console of its BMC.',
  },
};

/** The event, where the last order about the power of the machine ended so. */
const endedSo =
  (code: string) =>
  ({ events }: ObservedBoot): readonly Shown[] => {
    const last = events.findLast(({ kind }) => kind === 'machine.power');
    return last?.reason?.code === code ? shown([last]) : NOTHING;
  };

export const POWER_RULES = (Object.keys(POWER) as (keyof typeof POWER)[]).map((code) => ({
  code,
  title: NAMES[code].replace(/\.$/, ''),
  certainty: code === 'wrong-machine-booted' ? ('likely' as const) : ('certain' as const),
  ...POWER[code],
  find: endedSo(code),
}));
