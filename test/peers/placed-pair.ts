/** Puts pairs of plans that no agent carries out, with the agent's own function. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { PlanLine } from '../../src/agent/wire/plan.ts';
import type { TestMachine } from '../unit/cluster/planner-kit.ts';
import { SOURCE } from './agent-kit.ts';

const SCRIPT = `set -u
umask 077
root=$1 stage=$2 run=$2 identity=$2
hold_code='' plan_hold_code='' plan_hold_text=''
for part in base files pairs; do . "$3/muster-$part.sh"; done
put_pair 644 "$5" "$4" key || { echo "$hold_text" >&2; exit 1; }`;

/** Does the line below directory `root`, with the key of the machine. */
export function placePair(
  root: string,
  line: Extract<PlanLine, { do: 'put-pair' }>,
  machine: TestMachine,
): void {
  if (!('text' in line.content) || !('leaf' in line.key)) throw new Error(`unexpected: ${line.path}`);
  const stage = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-pair-'));
  for (const directory of ['files', 'keys']) fs.mkdirSync(path.join(stage, directory));
  const sha256 = createHash('sha256').update(line.content.text).digest('hex');
  fs.writeFileSync(path.join(stage, 'files', sha256), line.content.text);
  fs.writeFileSync(path.join(stage, 'keys/key.key'), machine.keys.get(line.key.leaf)!.pem());
  execFileSync('sh', ['-c', SCRIPT, 'sh', root, stage, SOURCE, line.path, sha256]);
  fs.rmSync(stage, { recursive: true });
}
