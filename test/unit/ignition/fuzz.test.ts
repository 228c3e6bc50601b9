/** Damaged templates and Ignition configurations give a text or faults. */
import { expect, test } from 'vitest';
import { parsed } from '../../../src/base/foreign-json.ts';
import { validateIgnition } from '../../../src/ignition/ignition-validate.ts';
import { compile, expand } from '../../../src/ignition/template.ts';
import { damagedRecords, INPUTS } from '../fuzzing.ts';
import { fuzz, random } from '../resources/fuzz.ts';

test('damaged templates: a text or a fault each time, and only values that they name', () => {
  const secret = 'must-not-appear';
  const scope = {
    machine: { name: secret, serial: undefined, mac: '52:54:00:00:00:01' },
    network: undefined,
    var: { port: 8080, on: true, nested: { a: 1 }, tricky: '${machine.name}' },
  };
  fuzz(
    INPUTS,
    random('template'),
    ['a ${machine.mac} b\n$${x} ${var.port}', '${var.on}$${${var.port}}'],
    (template) => {
      const result = expand(template, scope);
      if (result.ok && result.text.includes(secret) && !template.includes('${machine.name}'))
        throw new Error(template);
      if (!result.ok && (result.line < 1 || result.message === '')) throw new Error(template);
      if (compile(template).parts.length % 2 !== 1) throw new Error(template);
    },
  );
});

const WHOLE = {
  ignition: { version: '3.3.0' },
  storage: {
    files: [
      {
        path: '/a',
        mode: 420,
        contents: { source: 'data:,x', verification: { hash: `sha256-${'0'.repeat(64)}` } },
      },
    ],
    links: [{ path: '/l', target: '/a' }],
    disks: [{ device: '/dev/a', partitions: [{ number: 1, label: 'x' }] }],
    filesystems: [{ device: '/dev/b', format: 'ext4', path: '/m' }],
  },
  systemd: {
    units: [{ name: 'a.service', contents: '[Unit]\n', dropins: [{ name: 'x.conf', contents: '' }] }],
  },
  passwd: { users: [{ name: 'u', groups: ['g'], sshAuthorizedKeys: ['k'] }] },
};

test('damaged configurations: faults or none, never an exception', async () => {
  let valid = 0;
  await damagedRecords('ignition', [WHOLE], (text) => {
    // Texts that are not JSON any more are skipped.
    const value = parsed(text);
    if (value !== undefined && validateIgnition(value).length === 0) valid++;
  });
  expect(valid).toBeGreaterThan(INPUTS / 2000);
});
