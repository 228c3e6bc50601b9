import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { MusterError } from '../../../src/base/errors.ts';
import { loadScenario } from '../../../src/lab/run.files.ts';
import { readScenario } from '../../../src/lab/scenario.ts';

const smallest = () => ({
  name: 'small',
  about: 'One machine.',
  documents: [{ kind: 'Network' }],
  machines: [{ name: 'node-1', firmware: 'bios', nics: [{ mac: '52-54-00-AA-00-01' }] }],
  expect: [{ machine: 'node-1', phase: 'ready' }],
});

function faults(value: unknown): string[] {
  try {
    readScenario(value, 'lab/x.yaml');
  } catch (error) {
    return (error as MusterError).faults.map((fault) => `${fault.path}: ${fault.message}`);
  }
  return [];
}

test('the smallest scenario powers everything on and waits until each machine is ready and has reported its facts', () => {
  const scenario = readScenario(smallest(), 'lab/x.yaml');
  expect(scenario.steps).toEqual([
    { powerOn: ['node-1'] },
    { wait: { machine: 'node-1', phase: 'ready' } },
    { wait: { machine: 'node-1', facts: true } },
  ]);
  expect(scenario.patience).toBe(60_000);
  expect(scenario.machines[0]!.nics[0]!.mac).toBe('52:54:00:aa:00:01');
});

test('a fault names the file, the place and what was found', () => {
  const value = { ...smallest(), machines: [{ ...smallest().machines[0], firmware: 'coreboot' }] };
  expect(faults(value)[0]).toMatch(/^machines\[0\]\.firmware: lab\/x\.yaml: .*"bios"/);
});

test('an expectation of a machine that is not in the rack is refused', () => {
  const value = { ...smallest(), expect: [{ machine: 'node-9', phase: 'ready' }] };
  expect(faults(value)).toEqual([
    'expect[0].machine: lab/x.yaml: no machine of this scenario is called "node-9"; its machines are node-1',
  ]);
});

test('an expectation has exactly one check', () => {
  for (const wrong of [{ machine: 'node-1' }, { machine: 'node-1', phase: 'ready', hostname: 'x' }])
    expect(faults({ ...smallest(), expect: [wrong] })[0]).toMatch(/give exactly one of phase, held/);
});

test('two machines cannot have the same network card', () => {
  const [first] = smallest().machines;
  const value = { ...smallest(), machines: [first, { ...first, name: 'node-2' }] };
  expect(faults(value)).toEqual([
    'machines[1].nics: lab/x.yaml: 52:54:00:aa:00:01 already belongs to node-1',
  ]);
});

test('a machine with cards only on the dead segment must name the one from which it boots', () => {
  const machine = { ...smallest().machines[0], nics: [{ mac: '52:54:00:aa:00:01', segment: 'dead' }] };
  expect(faults({ ...smallest(), machines: [machine] })[0]).toContain('none with boot: true');
});

test('a step has expectations of a command only where it has a command', () => {
  const steps = (...list: object[]) => faults({ ...smallest(), steps: list });
  expect(steps({ muster: ['get', 'machines'], says: 'node-1', within: '10s', exitCode: 1 })).toEqual([]);
  expect(steps({ powerOn: ['node-1'], says: 'x' })[0]).toContain(
    'says, exitCode and within need muster or shell',
  );
  expect(steps({ powerOn: ['node-1'], powerCut: ['node-1'] })[0]).toContain('give exactly one of powerOn');
});

test('an invalid regular expression is refused before anything starts', () => {
  const step = (one: object) => faults({ ...smallest(), steps: [one] });
  expect(step({ muster: ['status'], says: '(' })).toEqual([
    'steps[0].says: lab/x.yaml: not a regular expression',
  ]);
  expect(step({ wait: { machine: 'node-1', serial: '[a' } })[0]).toContain('not a regular expression');
  for (const field of ['serial', 'noSerial'])
    expect(faults({ ...smallest(), expect: [{ machine: 'node-1', [field]: '*' }] })[0]).toContain(
      'not a regular expression',
    );
});

test('only machines of the scenario are cut off, and only blank disks are wiped', () => {
  const value = smallest();
  const at = (...list: object[]) => faults({ ...value, steps: list });
  expect(at({ powerCut: ['node-9'] })[0]).toContain('no machine of this scenario is called "node-9"');
  expect(at({ etcd: { cluster: 'one', written: { on: ['node-9'] } } })[0]).toContain('"node-9"');
  expect(at({ wipe: ['node-1'] })).toEqual(['steps[0]: lab/x.yaml: node-1 has no blank disk']);
  expect(at({ newTpm: ['node-1'] })).toEqual(['steps[0]: lab/x.yaml: node-1 has no TPM']);
  const disks = [{ serial: 'DATA', blank: true }];
  expect(
    faults({ ...value, machines: [{ ...value.machines[0], disks }], steps: [{ wipe: ['node-1'] }] }),
  ).toEqual([]);
});

test('a file that is not YAML or not there is an error with its code', async () => {
  await expect(loadScenario('/nonexistent.yaml')).rejects.toMatchObject({ code: 'E_UNREADABLE' });
  await expect(loadScenario(`${import.meta.dirname}/../../../package-lock.json`)).rejects.toBeInstanceOf(
    MusterError,
  );
});

const scenarios = readdirSync('lab').filter((file) => file.endsWith('.yaml'));

test.each(scenarios)('lab/%s is a valid scenario that is named like its file', async (file) => {
  const scenario = await loadScenario(`lab/${file}`);
  expect(`${scenario.name}.yaml`).toBe(file);
});
