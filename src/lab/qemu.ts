/** The command line of QEMU for a machine of the rack. Pure. */
import type { BootTarget } from '../bmc/bmc.ts';
import { bootNic, type LabMachine } from './scenario.ts';

interface QemuPlaces {
  readonly accel: 'kvm' | 'tcg';
  /** Tap interfaces, in the order of the machine's cards. */
  readonly taps: readonly string[];
  /** Raw images, in the order of the machine's disks. */
  readonly disks: readonly string[];
  /** The UEFI firmware's code (read-only) and this machine's own variables. */
  readonly uefi?: { readonly code: string; readonly variables: string };
  /** The control socket of its TPM, if it has one. */
  readonly tpm?: string;
  /** Files for the two serial ports: the console, and the port for facts. */
  readonly console: string;
  readonly facts: string;
  /** What a machine with `diskSystem` boots. */
  readonly diskSystem?: { readonly kernel: string; readonly initrd: string } | undefined;
  /** Sockets for a machine's BMC: the console, and QMP. */
  readonly bmc?: { readonly console: string; readonly qmp: string };
}

/**
 * The processor model without KVM: everything that QEMU can emulate, except three flags. `erms` and
 * `fsrm` promise that copying octet by octet is fast; QEMU copies one octet at a time, and a kernel
 * that trusts the flags takes a tenth longer to boot Debian. `svm` makes udev load modules for
 * virtualisation that the rack does not use (a few per cent of the time of a boot). Intel models
 * take a third longer, because the kernel isolates its page tables on them.
 */
const EMULATED = 'max,-erms,-fsrm,-svm';

/** Only the firmware's own code, which runs in SMM, can write the variables of Secure Boot. */
const SECURE = 'q35,graphics=off,smm=on';

/**
 * The arguments for a machine. The firmware is unmodified: SeaBIOS with iPXE as the card's ROM, or
 * OVMF. Its boot order names one card, as an operator sets it in the firmware of a real machine.
 * `uefi-http` has PXE switched off, so that it tries HTTP first.
 */
export function qemuArguments(
  machine: LabMachine,
  places: QemuPlaces,
  boot: BootTarget = 'none',
): readonly string[] {
  const { firmware } = machine;
  const args = [
    ...['-accel', places.accel, '-cpu', places.accel === 'kvm' ? 'host' : EMULATED],
    ...['-smp', String(machine.processors)],
    ...[
      '-machine',
      firmware === 'bios' ? 'pc,graphics=off' : machine.secureBoot ? SECURE : 'q35,graphics=off',
    ],
    ...[
      '-m',
      String(machine.memoryMiB),
      '-display',
      'none',
      '-monitor',
      'none',
      '-nodefaults',
      '-no-user-config',
    ],
    ...['-chardev', consoleOf(places), '-device', 'isa-serial,chardev=console'],
    ...['-chardev', `file,id=facts,path=${places.facts},append=on`, '-device', 'isa-serial,chardev=facts'],
    ...['-rtc', `base=${machine.clock ?? 'utc'}`, '-device', 'virtio-rng-pci'],
    ...[
      '-smbios',
      `type=1,manufacturer=${escaped(machine.manufacturer)},product=${escaped(machine.product)}`,
    ],
  ];
  if (machine.serial) args[args.length - 1] += `,serial=${escaped(machine.serial)}`;
  if (machine.uuid) args.push('-uuid', machine.uuid);
  if (places.uefi) {
    if (machine.secureBoot) args.push('-global', 'driver=cfi.pflash01,property=secure,value=on');
    args.push('-drive', `if=pflash,unit=0,format=raw,readonly=on,file=${places.uefi.code}`);
    args.push('-drive', `if=pflash,unit=1,format=raw,file=${places.uefi.variables}`);
    // Nothing answers IPv6 in the rack, and the firmware would wait for minutes.
    args.push('-fw_cfg', 'name=opt/org.tianocore/IPv6PXESupport,string=n');
    if (firmware === 'uefi-http') args.push('-fw_cfg', 'name=opt/org.tianocore/IPv4PXESupport,string=n');
  }
  if (places.tpm !== undefined) args.push(...tpmArguments(places.tpm));
  const bootCard = bootNic(machine);
  if (places.bmc) args.push('-qmp', `unix:${places.bmc.qmp},server=on,wait=off`);
  const first = boot === 'none' ? machine.bootOrder : boot;
  const order = first.startsWith('disk') ? { disks: 1, card: 100 } : { card: 1, disks: 10 };
  // Without anything to boot, OVMF shows its setup, and SeaBIOS says that it has nothing.
  const bootindex = (index: number): string => (boot === 'setup' ? '' : `,bootindex=${index}`);
  if (boot === 'setup' || first === 'disk-only') args.push('-boot', 'strict=on');
  if (machine.diskSystem && places.diskSystem && first.startsWith('disk')) {
    // QEMU loads the kernel, in the place of a loader on the disk.
    const { kernel, initrd } = places.diskSystem;
    const card = `BOOTIF=01-${bootCard?.mac.replaceAll(':', '-')}`;
    args.push('-kernel', kernel, '-initrd', initrd, '-append', `console=ttyS0 ${card}`);
  }
  for (const [index, card] of machine.nics.entries()) {
    args.push('-netdev', `tap,id=n${index},ifname=${places.taps[index]},script=no,downscript=no`);
    // UEFI has its own driver; an empty romfile keeps it from loading iPXE's.
    const rom = firmware === 'bios' ? '' : ',romfile=';
    const place = card === bootCard && first !== 'disk-only' ? bootindex(order.card) : '';
    args.push('-device', `virtio-net-pci,netdev=n${index},mac=${card.mac}${place}${rom}`);
  }
  for (const [index, path] of places.disks.entries()) {
    args.push('-drive', `if=none,id=d${index},format=raw,file=${path}`);
    const { bus, serial = bus === 'nvme' ? `disk${index}` : undefined } = machine.disks[index]!;
    const model = bus === 'nvme' ? 'nvme' : 'virtio-blk-pci';
    args.push(
      '-device',
      `${model},drive=d${index}${bootindex(order.disks + index)}${serial === undefined ? '' : `,serial=${serial}`}`,
    );
  }
  return args;
}

/** The console's file; a BMC also reads it from its first octet, because QEMU waits for the BMC. */
const consoleOf = ({ console, bmc }: QemuPlaces): string =>
  bmc === undefined
    ? `file,id=console,path=${console},append=on`
    : `socket,id=console,path=${bmc.console},logfile=${console},logappend=on`;

/** A TPM 2.0 at the addresses where every PC has one; the guest's driver is tpm_tis. */
const tpmArguments = (socket: string): readonly string[] => [
  ...['-chardev', `socket,id=tpm,path=${socket}`, '-tpmdev', 'emulator,id=tpm0,chardev=tpm'],
  ...['-device', 'tpm-tis,tpmdev=tpm0'],
];

/** QEMU separates values with commas; a comma in a value is doubled. */
const escaped = (text: string): string => text.replaceAll(',', ',,');
