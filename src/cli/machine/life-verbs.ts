/** Registers the verbs of `muster machine` about the life of a machine. */
import { MACHINE, outputOption, type Register, withExamples, withServer } from '../register.ts';

/** Registers `life` and the orders that src/machines/life/life.ts lists. */
export function registerLife(...[machine, io, finish]: Parameters<Register>): void {
  const life = withServer(
    machine
      .command('life')
      .summary('show the state of a machine, and what may be ordered')
      .description(
        'Shows whether a machine is in use, taken out or retired, why and by whom, what it waits for, and which orders its state allows (docs/life.md).',
      )
      .argument(...MACHINE)
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./life.ts')).life(name, options, io)),
  );
  withExamples(life, ['muster machine life node-4', 'see what a machine waits for, and what comes next']);

  const out = withServer(
    machine
      .command('take-out')
      .summary('take a machine out of use')
      .description(
        'Takes a machine out of use, for example for a repair: its Node is drained and deleted, its member leaves etcd if the quorum allows, what it runs of its cluster stops, and its BMC switches it off. Its boots are held until it is brought back. The Cluster still names it.',
      )
      .argument(...MACHINE)
      .requiredOption('--reason <text>', 'why; shown wherever the machine is')
      .option('--no-drain', 'do not evict its pods first; ends a drain that takes too long'),
  ).action(async (name: string, options) =>
    finish(await (await import('./life.ts')).takeOut(name, options, io)),
  );
  withExamples(out, [
    'muster machine take-out node-4 --reason "fan is broken"',
    'empty a machine and switch it off for a repair',
  ]);

  const back = withServer(
    machine
      .command('bring-back')
      .summary('bring a machine back into use')
      .description(
        'Lets a machine boot again that was taken out. It joins its cluster as a new Node; a member of etcd clears its old data first and joins as a learner, other machines keep their data.',
      )
      .argument(...MACHINE),
  ).action(async (name: string, options) =>
    finish(await (await import('./life.ts')).bringBack(name, options, io)),
  );
  withExamples(back, ['muster machine bring-back node-4', 'let a repaired machine work again']);

  registerReplace(machine, io, finish);
  registerWipes(machine, io, finish);
  const retire = withServer(
    machine
      .command('retire')
      .summary('end the certificate and disk keys of a machine for good')
      .description(
        'Retires a machine that was taken out: its certificate is revoked, and the keys that the boot host keeps of its encrypted disks are removed. Its document stays until you delete it.',
      )
      .argument(...MACHINE)
      .requiredOption('--reason <text>', 'why; shown wherever the machine is')
      .option('--confirm <name>', 'the name of the machine again')
      .option('--unwiped', 'its disks were not wiped: they are destroyed elsewhere'),
  ).action(async (name: string, options) =>
    finish(await (await import('./life.ts')).retire(name, options, io)),
  );
  withExamples(retire, [
    'muster machine retire node-4 --reason "sold" --unwiped --confirm node-4',
    'retire a machine whose disks are shredded',
  ]);
}

/** Registers `replace`. */
function registerReplace(...[machine, io, finish]: Parameters<Register>): void {
  const replace = withServer(
    machine
      .command('replace')
      .summary('give a machine the hardware of another one')
      .description(
        'Gives a machine the hardware of another one, which has booted once and has no document: a new board, or a whole machine. Name, addresses, profile, cluster and configuration stay; hardware addresses, UUID and serial number become those of the new one. The certificate of the old one ends, unless its disks are in the new one.',
      )
      .argument('<old>', 'name of the machine whose hardware is replaced')
      .argument('<new>', 'the new hardware: its name in the list, or its hardware address')
      .option('--mac <address...>', 'addresses of the new one besides the one that it booted from')
      .option('--keep-disks', 'the disks of the old machine are in the new one')
      .option('--confirm <name>', 'the name of the old machine again'),
  ).action(async (old: string, by: string, options) =>
    finish(await (await import('./life.ts')).replace(old, by, options, io)),
  );
  withExamples(
    replace,
    [
      'muster machine replace node-4 m-525400aa0009 --confirm node-4',
      'put a spare machine in the place of a dead one',
    ],
    [
      'muster machine replace node-4 m-525400aa0009 --keep-disks --confirm node-4',
      'a new board got the disks of the old one',
    ],
  );
}

/** Registers `test`. */
function registerTest(...[machine, io, finish]: Parameters<Register>): void {
  const test = withServer(
    machine
      .command('test')
      .summary('test memory, disks and network of a machine that was taken out')
      .description(
        'Orders that the parts of a machine are tested when it boots from the network next; its BMC restarts it. Memory is written and read, disks are read and asked for their health, and the boot host is asked for packets and files. Nothing is written to disks. With --report it prints what was measured, the newest first, and exits with 1 when that has faults.',
      )
      .argument(...MACHINE)
      .option('--for <duration>', 'how long memory is tested, and each disk is read at most (default: 10m)')
      .option('--reason <text>', 'why; it is in the report')
      .option('--report', 'print the reports of its tests')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./life.ts')).test(name, options, io)),
  );
  withExamples(
    test,
    ['muster machine test node-4 --for 8h', 'test a new machine over night'],
    ['muster machine test node-4 --report', 'print what was measured'],
  );
}

/** Registers `rescue`. */
function registerRescue(...[machine, io, finish]: Parameters<Register>): void {
  const rescue = withServer(
    machine
      .command('rescue')
      .summary('look at a machine by SSH, in a system that writes to no disk')
      .description(
        'Lets a machine boot the rescue system once: from memory, with its disks set to read-only, and with SSH for one key. Its BMC restarts it. The boot after it is an ordinary one. A machine whose agent runs is refused: take it out first.',
      )
      .argument(...MACHINE)
      .requiredOption('--reason <text>', 'why; shown wherever the machine is')
      .requiredOption('--key <file>', 'file with the public key that may log in; - for standard input')
      .option('--for <duration>', 'how long it lasts at most (default: 4h)'),
  ).action(async (name: string, options) =>
    finish(await (await import('./life.ts')).rescue(name, options, io)),
  );
  withExamples(rescue, [
    'muster machine rescue node-4 --reason "does not boot" --key ~/.ssh/id_ed25519.pub',
    'look at the disks of a machine whose system does not start',
  ]);
}

/** Registers `wipe`, `call-off` and `wipes`. */
function registerWipes(...[machine, io, finish]: Parameters<Register>): void {
  const wipe = withServer(
    machine
      .command('wipe')
      .summary('wipe the disks of a machine that was taken out')
      .description(
        'Orders that the disks of a machine are wiped when it boots from the network next; its BMC restarts it. The level `tables` wipes what names data at the ends of disks and partitions, `overwrite` every sector. At the level `crypto` drives erase themselves, which takes seconds on most flash drives; a drive that cannot is named, and the wipe fails. It counts only when sectors that were written before are gone afterwards; otherwise the machine stays out of use.',
      )
      .argument(...MACHINE)
      .requiredOption('--level <level>', 'tables, crypto or overwrite')
      .requiredOption('--reason <text>', 'why; it is on the certificate')
      .option('--disk <name...>', 'only these: serial numbers or world wide names')
      .option('--confirm <name>', 'the name of the machine again'),
  ).action(async (name: string, options) =>
    finish(await (await import('./life.ts')).wipe(name, options, io)),
  );
  withExamples(
    wipe,
    [
      'muster machine wipe node-4 --level overwrite --reason "sold" --confirm node-4',
      'wipe all disks before a machine is sold',
    ],
    [
      'muster machine wipe node-4 --level crypto --disk S4EVNF0M --reason "returned" --confirm node-4',
      'have one drive erase itself before it is returned',
    ],
  );

  registerRescue(machine, io, finish);
  registerTest(machine, io, finish);
  const callOff = withServer(
    machine
      .command('call-off')
      .summary('cancel a wipe that has not begun or a test, or end a rescue')
      .description(
        'Cancels a wipe that the machine has not begun, or a test; it stays taken out. Ends a rescue: the machine is what it was before.',
      )
      .argument(...MACHINE),
  ).action(async (name: string, options) =>
    finish(await (await import('./life.ts')).callOff(name, options, io)),
  );
  withExamples(callOff, ['muster machine call-off node-4', 'keep what is on the disks after all']);

  const wipes = withServer(
    machine
      .command('wipes')
      .summary('print the certificates of wipes')
      .description(
        'Prints the certificates of the wipes of a machine, the newest first: serial numbers, level, what was read afterwards, who ordered it and when. Exits with 1 when the newest one failed.',
      )
      .argument('<machine>', 'its name, also when its document is gone')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./life.ts')).wipes(name, options, io)),
  );
  withExamples(wipes, ['muster machine wipes node-4', 'print the certificate for an auditor']);
}
