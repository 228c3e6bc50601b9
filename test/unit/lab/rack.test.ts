import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Millis } from '../../../src/base/duration.ts';
import { readFacts, withFacts } from '../../../src/lab/facts.ts';
import { stepOf, subjectsOf } from '../../../src/lab/observed.ts';
import { qemuArguments } from '../../../src/lab/qemu.ts';
import { resultOf, resultText, tail } from '../../../src/lab/report.ts';
import type { LabMachine } from '../../../src/lab/scenario.ts';

const machine: LabMachine = {
  name: 'node-1',
  firmware: 'bios',
  memoryMiB: 512,
  processors: 1,
  nics: [
    { mac: '52:54:00:aa:00:11', segment: 'dead' },
    { mac: '52:54:00:aa:00:12', segment: 'main' },
  ],
  uuid: '7a3f6c1e-2b4d-4e5f-8a9b-0c1d2e3f4a5b',
  serial: 'U,12',
  manufacturer: 'Lab',
  product: 'Rack',
  clock: '2015-01-01T00:00:00',
  disks: [{ sizeMiB: 32, bus: 'virtio', filledWith: 'x' }],
  bootOrder: 'network',
};
const places = {
  accel: 'tcg',
  taps: ['tap0n0', 'tap0n1'],
  disks: ['/x/disk0'],
  console: '/x/console',
  facts: '/x/facts',
} as const;

test('the firmware boots from the card on the main segment, and the disk comes after it', () => {
  const line = qemuArguments(machine, places).join(' ');
  expect(line).toContain('netdev=n1,mac=52:54:00:aa:00:12,bootindex=1');
  expect(line).not.toContain('mac=52:54:00:aa:00:11,bootindex');
  expect(line).toContain('virtio-blk-pci,drive=d0,bootindex=10');
  expect(line).toContain('-rtc base=2015-01-01T00:00:00');
  expect(line).toContain('serial=U,,12');
  expect(line).not.toContain('bootindex=10,serial');
  expect(line).toContain('-smp 1 ');
  expect(qemuArguments({ ...machine, processors: 2 }, places).join(' ')).toContain('-smp 2 ');
  const data = { ...machine, disks: [{ ...machine.disks[0]!, serial: 'DATA' }] };
  expect(qemuArguments(data, places).join(' ')).toContain('drive=d0,bootindex=10,serial=DATA');
  const ownFirst = qemuArguments({ ...machine, bootOrder: 'disk' }, places).join(' ');
  expect(ownFirst).toContain('drive=d0,bootindex=1');
  expect(ownFirst).toContain('mac=52:54:00:aa:00:12,bootindex=100');
});

test('a machine has a TPM only where the scenario says so', () => {
  expect(qemuArguments(machine, places).join(' ')).not.toContain('tpm');
  const line = qemuArguments(machine, { ...places, tpm: '/x/tpm/socket' }).join(' ');
  expect(line).toContain('-chardev socket,id=tpm,path=/x/tpm/socket -tpmdev emulator,id=tpm0,chardev=tpm');
});

test('UEFI firmware brings its own network driver and its own variables', () => {
  const uefi = { code: '/ovmf/code', variables: '/x/vars' };
  const line = qemuArguments({ ...machine, firmware: 'uefi' }, { ...places, uefi }).join(' ');
  expect(line).toContain('mac=52:54:00:aa:00:12,bootindex=1,romfile=');
  expect(line).toContain('if=pflash,unit=0,format=raw,readonly=on,file=/ovmf/code');
});

test('profiles of full systems get the unit that reports, the probe gets a kernel argument, the rest stays as it is', () => {
  const profile = (image: string) => ({ kind: 'Profile', metadata: { name: image }, spec: { image } });
  const network = { kind: 'Network', spec: { subnet: '10.77.0.0/24' } };
  const [full, probe, same] = withFacts(
    [profile('debian-13'), profile('probe'), network],
    [{ machine: 'node-1', file: { path: '/etc/x' } }],
  ) as { spec: { kernelArguments?: string[]; config?: { units: object[]; files: { content: string }[] } } }[];
  expect(full!.spec.config!.units).toMatchObject([{ name: 'muster-lab-facts.service', enabled: true }]);
  expect(JSON.parse(full!.spec.config!.files[1]!.content)).toMatchObject({ files: ['/etc/x'] });
  expect(probe!.spec.kernelArguments).toEqual([
    'no_timer_check',
    'mitigations=off',
    'init_on_alloc=0',
    'probe.copy=/dev/ttyS1',
  ]);
  expect(full!.spec.kernelArguments).toEqual(['no_timer_check', 'mitigations=off', 'init_on_alloc=0']);
  expect(same).toBe(network);
});

test('the last complete line of facts counts; an incomplete one does not', () => {
  const line = (hostname: string) =>
    `MUSTER-FACTS ${JSON.stringify({ hostname, commandLine: '', clock: 1 })}\r\n`;
  expect(readFacts('')).toBeUndefined();
  expect(readFacts(`${line('a')}${line('b')}${line('c').slice(0, 20)}`)?.hostname).toBe('b');
});

test('the probe reports which server gave its lease', () => {
  const said = {
    mac: '52:54:00:aa:00:01',
    clock: { before: 1, now: 2 },
    cmdline: 'BOOTIF=01-52-54-00-aa-00-01',
    addresses: 'eth0 10.77.0.100/24',
    lease: { ip: '10.77.0.100', serverid: '10.77.0.2', hostname: 'node-1' },
    documents: {},
    failure: '',
  };
  expect(readFacts(`MUSTER-PROBE ${JSON.stringify(said)}\n`)).toMatchObject({
    dhcpServer: '10.77.0.2',
    hostname: 'node-1',
    addresses: { '52:54:00:aa:00:01': ['10.77.0.100/24'] },
  });
});

test('reading the port never throws, whatever comes', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      readFacts(`MUSTER-FACTS ${text}\nMUSTER-PROBE ${text}\n${text}`);
    }),
  );
});

test('events name a machine by its name, its MACs, or its name as an unknown machine', () => {
  expect(subjectsOf(machine)).toContain('m-525400aa0012');
  expect(
    stepOf({
      sequence: 1,
      at: 1 as Millis,
      kind: 'machine.phase',
      subject: 'node-1',
      fields: { from: 'booting', to: 'starting' },
    }),
  ).toBe('kernel');
});

test('the result for programs has exactly the documented fields, and the text has the same verdict', () => {
  const seen = { machine, steps: [{ step: 'power on', at: 0 }], events: [], disks: [], console: '' };
  const result = resultOf(
    'x',
    12.34,
    [seen],
    [{ text: 'node-1 is ready', ok: false, detail: 'found nothing' }],
  );
  expect(result).toEqual({
    scenario: 'x',
    ok: false,
    seconds: 12.3,
    machines: [
      { name: 'node-1', firmware: 'bios', outcome: 'power on', steps: [{ step: 'power on', at: 0 }] },
    ],
    expectations: [{ text: 'node-1 is ready', ok: false, detail: 'found nothing' }],
  });
  expect(resultText(result, [seen])).toContain('FAIL  node-1 is ready: found nothing');
  expect(resultText(result, [seen])).toContain('x: 1 of 1 expectations failed after 12.3 s');
});

test('the end of a console is shown without control sequences', () => {
  expect(tail('\x1b[2J\x1b[01;01Hone\r\n\r\n\x1b[0;32mtwo\x1b[0m\n', 5)).toBe('    | one\n    | two');
});
