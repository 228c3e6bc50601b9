/** What is done about BMCs that do otherwise than their specifications. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { bootIn, manufacturerIn, setBoot } from '../../../src/bmc/ipmi/commands.ts';
import { QUIRKS, quirksOf, quirksOfNumber } from '../../../src/bmc/quirks.ts';
import { bootChange, settingsOf } from '../../../src/bmc/redfish/model.ts';

const read = (...file: readonly string[]): string => readFileSync(path.join(...file), 'utf8');

test('each row names a test that exists, and is listed in docs/power.md', () => {
  const tests = [
    ...['quirks', 'order', 'redfish', 'ipmi', 'account', 'redfish-console'].map((name) =>
      read(import.meta.dirname, `${name}.test.ts`),
    ),
    read('test/peers/bmc.test.ts'),
  ];
  const page = read('docs/power.md');
  for (const { code, test: title } of QUIRKS) {
    expect(tests.join(''), title).toContain(`'${title}'`);
    expect(page).toContain(`\`${code}\``);
  }
});

const system = (boot: object) => ({ path: '/redfish/v1/Systems/1', body: { Boot: boot } });

test('Dell gets the mode only where it changes', () => {
  const dell = quirksOf('Dell Inc.');
  const isUefi = system({ BootSourceOverrideMode: 'UEFI' });
  expect(bootChange(isUefi, 'network', { uefi: true }, dell)).toEqual({
    Boot: { BootSourceOverrideTarget: 'Pxe', BootSourceOverrideEnabled: 'Once' },
  });
  expect(bootChange(isUefi, 'network', { uefi: false }, dell)).toMatchObject({
    Boot: { BootSourceOverrideMode: 'Legacy' },
  });
  expect(bootChange(isUefi, 'network', { uefi: true }, quirksOf('Supermicro'))).toMatchObject({
    Boot: { BootSourceOverrideMode: 'UEFI' },
  });
});

test('AMI gets changes of the boot target below /SD', () => {
  expect(settingsOf(system({}), quirksOf('American Megatrends Inc.'))).toBe('/redfish/v1/Systems/1/SD');
  expect(settingsOf(system({}), quirksOf('HPE'))).toBe('/redfish/v1/Systems/1');
});

test('Supermicro gets the disk of UEFI as device 9', () => {
  const supermicro = quirksOfNumber(manufacturerIn(Buffer.from('2001046002bf7c2a000000', 'hex')));
  const sent = setBoot('disk', { uefi: true }, supermicro).data;
  expect(sent[2]).toBe(0x24);
  expect(bootIn(Buffer.concat([Buffer.from([1]), sent]))?.target).toBe('disk');
  expect(setBoot('disk', { uefi: false }, supermicro).data[2]).toBe(0x08);
  expect(setBoot('disk', { uefi: true }, quirksOfNumber(674)).data[2]).toBe(0x08);
});
