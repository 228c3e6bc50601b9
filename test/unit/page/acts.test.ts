/** What the page offers in place of commands, and the commands that its dialogs show. */
import { expect, test } from 'vitest';
import { commandTree } from '../../../scripts/command-tree.ts';
import { actFor, commandOf, MACHINE_ACTS } from '../../../src/page/base/acts.ts';

test('a command about a machine leads to its button on the page of that machine', () => {
  expect(actFor('muster machine accept worker-3 --profile PROFILE')).toEqual({
    label: 'Accept: worker-3',
    path: ['machines', 'worker-3'],
    query: { do: 'machine accept' },
    access: 'operate',
  });
  expect(actFor('muster power cycle NAME --boot network', ['machines', 'n1'])).toEqual({
    label: 'Power of n1',
    path: ['machines', 'n1'],
    query: { tab: 'power', do: 'power cycle' },
    access: 'operate',
  });
});

test('a command that shows something leads to its view', () => {
  for (const [command, label] of [
    ['muster explain node-1', 'Why node-1'],
    ['muster cluster status blue', 'Health of blue'],
    ['muster change blue.agents', 'Change of blue'],
    ['muster get machine n1 -o yaml', 'Facts of n1'],
    ['muster pending confirm 4f2c81a0', 'Orders that wait'],
    ['muster cluster restore blue --from cp1', 'Restore blue'],
    ['muster operator ls', 'see the operators'],
    ['muster pending ls', 'Orders that wait'],
    ['muster status', 'see the Overview'],
  ] as const)
    expect(actFor(command)?.label, command).toBe(label);
});

test('what the page cannot do stays a command, as does a placeholder elsewhere', () => {
  for (const command of [
    'muster image build debian',
    'muster machine accept NAME',
    'muster machine accept ../../keys',
    'muster machine dance node-1',
    'systemctl restart muster',
  ])
    expect(actFor(command, ['overview']), command).toBeUndefined();
});

test('a command in a dialog is one that a shell reads as it is meant', () => {
  const words = ['machine', 'take-out', 'node-4'];
  expect(commandOf(words, { '--reason': "it's broken; $(reboot)", '--disk': '' })).toBe(
    `muster machine take-out node-4 --reason 'it'\\''s broken; $(reboot)'`,
  );
  expect(commandOf(['power', 'off', 'n1'], { '--now': true })).toBe('muster power off n1 --now');
});

test('each order about a machine is a verb of the command line', () => {
  const machine = commandTree().commands.find((command) => command.name() === 'machine');
  const verbs = machine?.commands.map((command) => command.name());
  expect(verbs).toEqual(expect.arrayContaining(Object.keys(MACHINE_ACTS)));
});
