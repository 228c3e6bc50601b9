/** Fuzzing of YAML and documents: every fault has a position. */
import { expect, test } from 'vitest';
import { parseDocuments } from '../../../src/resources/document.ts';
import { readYaml } from '../../../src/resources/yaml.ts';
import { INPUTS } from '../fuzzing.ts';
import { fuzz, random } from './fuzz.ts';

const SEEDS = [
  `apiVersion: muster/v1\nkind: Machine\nmetadata: {name: a}\nspec:\n  macs: ["52:54:00:00:00:01"]\n`,
  '%TAG ! tag:x,2000:\n--- !a &b\n- *b\n- |+2\n    x\n...\n# c\n--- >-\n folded\n',
  `{"a": [1, 2.5, -3e7, true, null, "\\u00e9\\n", 'it''s'], ? b : c}\n`,
  'a: &x {k: [1, 2]}\nb: [*x, *x]\n<<: *x\n',
];

test('broken texts each give a value or a fault, never an exception', () => {
  let faults = 0;
  fuzz(INPUTS, random('yaml'), SEEDS, (text) => {
    const result = readYaml(text, 'f.yaml');
    if (!result.ok) {
      faults++;
      if (result.fault.code !== 'E_YAML' || !result.fault.at || result.fault.at.line < 1)
        throw new Error(text);
    }
  });
  expect(faults).toBeGreaterThan(INPUTS / 200);
});

test('broken documents each give documents and faults, and every fault has a position', () => {
  fuzz(INPUTS, random('documents'), SEEDS.slice(0, 1), (text) => {
    const { documents, faults } = parseDocuments(text, 'f.yaml');
    if (
      documents.length === 0 &&
      faults.length === 0 &&
      /^[^#]*\S/.test(text) &&
      readYaml(text, 'f').ok === false
    )
      throw new Error(text);
    for (const fault of faults) if (!fault.at) throw new Error(text);
  });
});
