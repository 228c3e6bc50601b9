/** Registers `muster render` and the verbs of `muster machine`. */

import { registerBmc } from '../power/verbs.ts';
import { MACHINE, outputOption, type Register, withExamples, withServer } from '../register.ts';
import { registerLife } from './life-verbs.ts';

export const registerMachine: Register = (program, io, finish) => {
  const render = withServer(
    program
      .command('render')
      .summary("print a machine's first-boot configuration")
      .description(
        "Prints a machine's first-boot configuration as the server would serve it; with -f, from a directory and without a server.",
      )
      .argument('<machine>', 'name or MAC address')
      .option('-f, --filename <dir>', 'directory of YAML documents; no server is asked')
      .option('--file <name>', 'only this file, such as user-data')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (machine: string, options) =>
    finish(await (await import('./render.ts')).render(machine, options, io)),
  );
  withExamples(
    render,
    ['muster render node-1 --file user-data', 'print the cloud-init document of a machine'],
    ['muster render node-1 -f /etc/muster', 'render from a directory, without a server'],
  );

  const machine = program
    .command('machine')
    .summary('add, accept, approve and rearm machines, and see their boots')
    .description('Adds machines to the inventory, and decides about those that are held.');
  const add = withServer(
    machine
      .command('add')
      .summary('create a Machine document')
      .description('Creates a Machine document for a hardware address.')
      .argument('<mac>', 'hardware address in any usual spelling')
      .option('--profile <name>', 'its profile')
      .option('--name <name>', 'its name (default: the name it was seen under, else m-MAC)')
      .option('--cluster <name>', 'its cluster')
      .option('--address <ipv4>', 'an address that is reserved for it'),
  ).action(async (mac: string, options) =>
    finish(await (await import('./machine.ts')).add(mac, options, io)),
  );
  withExamples(
    add,
    [
      'muster machine add 52:54:00:aa:00:01 --profile worker --name node-1',
      'make a machine known before it boots',
    ],
    ['muster machine add 5254.00aa.0002 --profile worker --address 10.77.0.32', 'reserve an address for it'],
  );
  const accept = withServer(
    machine
      .command('accept')
      .summary('accept a machine that was seen, or let a held one try again')
      .description(
        'Accepts a machine that was seen, or lets one that is held try again. Its document takes only the address that it booted from; --mac adds others that it claimed.',
      )
      .argument(...MACHINE)
      .option('--profile <name>', 'its profile')
      .option('--name <name>', 'its name')
      .option('--cluster <name>', 'its cluster')
      .option('--mac <address...>', 'addresses that it claimed and that are its own'),
  ).action(async (name: string, options) =>
    finish(await (await import('./machine.ts')).accept(name, options, io)),
  );
  withExamples(
    accept,
    ['muster machine accept m-525400aa0001 --profile worker --name node-1', 'accept an unknown machine'],
    ['muster machine accept node-1', 'let a machine boot again that was held after failed boots'],
  );
  registerInstall(machine, io, finish);
  registerBmc(machine, io, finish);
  registerTimeline(machine, io, finish);
  registerConsole(machine, io, finish);
  registerQuarantine(machine, io, finish);
  registerLife(machine, io, finish);
  registerDataKeys(machine, io, finish);
  registerApproval(machine, io, finish);
  const rearm = withServer(
    machine
      .command('rearm')
      .summary("end an alarm about a machine's identity")
      .description(
        'Ends the alarm of a machine in whose name two keys asked, or the hold of a machine that was removed from its cluster and is back. Its certificate is no longer trusted; the next key that comes with the ticket of its current boot gets a new one. The TPM that was recorded for it is forgotten as well.',
      )
      .argument(...MACHINE)
      .option('--keep', 'keep its certificate and its TPM, and trust it again if it was revoked'),
  ).action(async (name: string, options) =>
    finish(await (await import('../pki/trust.ts')).rearm(name, options, io)),
  );
  withExamples(rearm, [
    'muster machine rearm node-1',
    'let a machine enrol again after you have looked at why two keys asked in its name',
  ]);
};

function registerInstall(...[machine, io, finish]: Parameters<Register>): void {
  const install = withServer(
    machine
      .command('install')
      .summary('install the system of a machine on its disk')
      .description(
        'Lets a machine whose Profile has `home: disk` install its system at its next boot, also when it has one. A disk with data is left alone unless --release names it; what is on it is then lost. With --restart its BMC switches it off and on at once, unless its cluster needs it; otherwise somebody else has to restart it.',
      )
      .argument(...MACHINE)
      .option('--release <serial>', 'serial number of the disk whose data may go')
      .option('--restart', 'let its BMC restart it from the network now'),
  ).action(async (name: string, options) =>
    finish(await (await import('./machine.ts')).install(name, options, io)),
  );
  withExamples(
    install,
    ['muster machine install node-1', 'install on a blank disk, at the next boot'],
    ['muster machine install node-1 --release S4EVNF0M', 'install on a disk whose data may go'],
    ['muster machine install node-1 --release S4EVNF0M --restart', 'and restart it now, by its BMC'],
  );
}

function registerTimeline(...[machine, io, finish]: Parameters<Register>): void {
  const timeline = withServer(
    machine
      .command('timeline')
      .summary('show what happened in a boot, and what is wrong')
      .description(
        'Shows what a machine and the boot host did in a boot: when, how long it took, what was waited for, and what is wrong.',
      )
      .argument(...MACHINE)
      .option('--boot <boot>', 'an id, or how many boots back: 0 the last one (default), -1 the one before')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./timeline.ts')).timeline(name, options, io)),
  );
  withExamples(
    timeline,
    ['muster machine timeline node-1', 'see how far its last boot came, and why it stopped there'],
    ['muster machine timeline node-1 --boot -1', 'look at the boot before'],
  );
}

function registerConsole(...[machine, io, finish]: Parameters<Register>): void {
  const shown = withServer(
    machine
      .command('console')
      .summary('show what a machine printed on its console')
      .description(
        'Shows what the kernel and the system of a machine printed in a boot, from the first line of the kernel. It is what the machine says of itself. Never take an approval code from it. With --bmc it shows what its BMC carries of the serial console, from the first line of the firmware.',
      )
      .argument(...MACHINE)
      .option(
        '--boot <boot>',
        "the kernel's boot id, or how many boots back: 0 the last one (default), -1 the one before",
      )
      .option('-f, --follow', 'print further lines as they come')
      .option(
        '--bmc',
        'what its BMC carries: its document needs `console` in `bmc`, such as `bmc: {console: sol}`',
      )
      .option('--type <text>', 'with --bmc: type this, and Enter, first')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./console.ts')).showConsole(name, options, io)),
  );
  withExamples(
    shown,
    ['muster machine console node-1 --follow', 'watch a machine boot'],
    ['muster machine console node-1 --boot -1', 'look at the boot before'],
    ['muster machine console node-1 --bmc --follow', 'watch its firmware start, too'],
  );
}

function registerQuarantine(...[machine, io, finish]: Parameters<Register>): void {
  const quarantine = withServer(
    machine
      .command('quarantine')
      .summary('give a machine nothing any more')
      .description(
        'Puts a machine in quarantine that may be in the wrong hands: its boots are held, its agent is refused and its certificate revoked, its Node is cordoned, requests and writes of its kubelet are denied.',
      )
      .argument(...MACHINE)
      .requiredOption('--reason <text>', 'why; shown wherever the machine is')
      .option('--delete-pods', 'delete its pods at once, so that its kubelet may read nothing for them'),
  ).action(async (name: string, options) =>
    finish(await (await import('./quarantine.ts')).quarantine(name, options, io)),
  );
  withExamples(quarantine, [
    'muster machine quarantine node-4 --reason "stolen from rack 2" --delete-pods',
    'shut out a machine that was stolen',
  ]);
  const release = withServer(
    machine
      .command('release')
      .summary('end the quarantine of a machine')
      .description(
        'Ends a quarantine: the machine boots again, and its next key gets a certificate by the rules of its tier of trust. Its old certificate stays revoked.',
      )
      .argument(...MACHINE),
  ).action(async (name: string, options) =>
    finish(await (await import('./quarantine.ts')).release(name, options, io)),
  );
  withExamples(release, ['muster machine release node-4', 'let a machine boot again']);
}

function registerDataKeys(...[machine, io, finish]: Parameters<Register>): void {
  const keys = withServer(
    machine
      .command('data-keys')
      .summary('list or remove the keys of encrypted disks')
      .description(
        'Lists the filesystems of a machine whose keys the boot host has (`encrypt: boot-host`), with their UUIDs as `cryptsetup luksUUID` shows them. A machine has at most 16; remove those of disks that are gone.',
      )
      .argument('<machine>', 'name as `muster get machines` lists it')
      .option('--remove <uuid>', 'remove this key; what is on that disk cannot be read any more')
      .addOption(outputOption('table', 'json', 'yaml')),
  ).action(async (name: string, options) =>
    finish(await (await import('./data-keys.ts')).dataKeys(name, options, io)),
  );
  withExamples(keys, ['muster machine data-keys node-1', 'see which encrypted disks it had']);
}

function registerApproval(...[machine, io, finish]: Parameters<Register>): void {
  const waiting = withServer(
    machine
      .command('waiting')
      .summary('list machines that wait for an approval')
      .description(
        'Lists machines whose keys wait until an operator confirms the code on their consoles (trust: approved). Serial and hardware are what the machine said; nobody checked them.',
      )
      .option('--cluster <name>', 'only machines of this cluster')
      .addOption(outputOption('table', 'wide', 'json', 'yaml')),
  ).action(async (options) => finish(await (await import('./approve.ts')).waiting(options, io)));
  withExamples(waiting, ['muster machine waiting --cluster blue', 'which machines of a cluster wait']);
  const approve = withServer(
    machine
      .command('approve')
      .summary('approve a machine by the code on its console')
      .description(
        "Approves machines whose keys wait: each gets its certificate, and with it its cluster's secrets. Read the code on the console of the machine itself (screen, serial line or BMC), never from a message. With --all it lists all codes beside their machines and asks once whether the consoles show the same; without a terminal it approves with the --confirm that it names. With --from-console the boot host reads each code on the serial console that the BMC of the machine carries: this trusts the BMC and its network (docs/power.md).",
      )
      .argument('[machine-code...]', 'each machine, followed by its code; with --from-console machines alone')
      .option('--all', 'all machines that wait')
      .option('--from-console', 'by the codes that their BMCs carry on the serial console')
      .option('--cluster <name>', 'with --all: only machines of this cluster')
      .option('--confirm <text>', 'with --all: confirms the codes that were listed'),
  ).action(async (words: string[], options) =>
    finish(await (await import('./approve.ts')).approve(words, options, io)),
  );
  withExamples(
    approve,
    ['muster machine approve cp1 7QK-3FD', 'approve one machine'],
    ['muster machine approve cp1 7QK-3FD cp2 0W2-H8M', 'approve several'],
    [
      'muster machine approve --all --cluster blue',
      'list the codes of all that wait, and approve them at once',
    ],
    ['muster machine approve --all --from-console', 'approve without anybody before the rack'],
  );
}
