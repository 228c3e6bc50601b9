/**
 * What the boot host does for one machine with a TPM: it reads what the TPM shows, seals a
 * challenge, and checks the answer. The software TPM that answers is not measured.
 */
import { createTpmChallenges, proofOf } from '../src/agent/identity/tpm-challenges.ts';
import { readShownTpm } from '../src/agent/identity/tpm-shown.ts';
import { ManualClock } from '../src/base/clock.ts';
import { activate, type SoftwareTpm, shownBy, softwareTpm } from '../test/unit/pki/tpm/software-tpm.ts';
import type { BenchCase, BenchSuite } from './compare.ts';

const MACHINES = 2000;
const PIN = 'aa'.repeat(32);

/** Activations a second for machines that all have this TPM. */
function activations(tpm: SoftwareTpm): number {
  const challenges = createTpmChallenges(new ManualClock());
  const text = shownBy(tpm);
  const shown = () => {
    const read = readShownTpm(text);
    if (!read.ok) throw new Error(read.text);
    return read.tpm;
  };
  let spent = 0;
  for (let n = 0; n < MACHINES; n++) {
    const of = { session: `s${n}`, pin: PIN };
    let began = performance.now();
    const challenge = challenges.make({ ...of, tpm: shown() });
    spent += performance.now() - began;
    const proof = proofOf(activate(tpm, challenge!)!, of).toString('hex');
    began = performance.now();
    if (!challenges.proves({ ...of, tpm: shown() }, proof)) throw new Error('the proof was refused');
    spent += performance.now() - began;
  }
  return (MACHINES / spent) * 1000;
}

const both: BenchCase = {
  figures: {
    rsa: { name: 'TPM activations, server side, RSA-2048', unit: '1/s', better: 'more' },
    ecc: { name: 'TPM activations, server side, P-256', unit: '1/s', better: 'more' },
  },
  ours: async () => ({ rsa: activations(softwareTpm('rsa')), ecc: activations(softwareTpm('ecc')) }),
};

export const suite: BenchSuite = {
  about:
    'One activation is both requests of a machine: reading its TPM twice, sealing the challenge, checking the proof. Certificate, store and TLS are not part of it.',
  open: async () => ({ cases: [both], close: async () => {} }),
};
