/**
 * Time from power-off to a cluster whose nodes are all Ready, in the virtual rack, compared with
 * kubeadm's own commands on the same machines.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { dump, load } from 'js-yaml';
import type { LabResult } from '../src/lab/report.ts';
import type { BenchSuite } from './compare.ts';

const PAIR = 'lab/kubernetes-pair.yaml';

interface Loose {
  documents: { kind: string; metadata: { name: string } }[];
  machines: { name: string }[];
  steps: { powerOn?: string[]; wait?: { machine: string } }[];
}

const loaded = (text: string): Loose => load(text) as Loose;

/**
 * Returns lab/kubeadm-ha.yaml reduced to the machines of the pair: five emulated machines are too
 * many for two processors, and a control plane with one emulated processor had no API server after
 * twenty minutes.
 */
function kubeadmPair(): string {
  const { machines } = loaded(readFileSync(PAIR, 'utf8'));
  const text = readFileSync('lab/kubeadm-ha.yaml', 'utf8').replace(/= 5 \]/, `= ${machines.length} ]`);
  const whole = loaded(text);
  const here = (wanted: string): boolean => machines.some(({ name }) => name === wanted);
  const documents = whole.documents.filter(
    ({ kind, metadata: { name } }) => kind !== 'Machine' || here(name) || name === 'nobody',
  );
  const steps = whole.steps
    .filter(({ wait }) => wait === undefined || here(wait.machine))
    .map((step) => (step.powerOn ? { powerOn: step.powerOn.filter(here) } : step));
  return dump({ ...whole, name: 'kubeadm-pair', documents, machines, steps });
}

/**
 * Plays a scenario; resolves to its result and the console of the control plane. Rejects unless all
 * expectations held.
 */
async function play(file: string, name: string): Promise<{ result: LabResult; console: string }> {
  const { stdout } = await promisify(execFile)('bin/muster', ['lab', 'run', file, '--json'], {
    maxBuffer: 1 << 26,
  });
  const result = JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as LabResult;
  return { result, console: readFileSync(join('.cache/lab', name, 'cp1.console'), 'latin1') };
}

/** The second at which the last operating system was up. */
const lastUp = ({ machines }: LabResult): number =>
  Math.max(...machines.map(({ steps }) => steps.find(({ step }) => step === 'ready')!.at));

/** The second at which a step of the scenario held. */
const heldAt = ({ expectations }: LabResult, text: string): number =>
  Number(/^after ([\d.]+) s/.exec(expectations.find((one) => one.text === text)!.detail)![1]);

const MACHINES = 'a control plane and a worker';

export const suite: BenchSuite = {
  about:
    'Two machines in the virtual rack are powered on: a control plane with two emulated processors and a worker with one. Both have a fixed bridge between pods and get images from the boot host. A script gives kubeadm each command at the earliest moment (lab/kubeadm-ha.yaml with two of its machines).',
  needs: () =>
    process.env.MUSTER_ARTIFACTS
      ? undefined
      : 'MUSTER_ARTIFACTS does not name a directory with Kubernetes (lab/README.md)',
  async open() {
    const home = mkdtempSync(join(tmpdir(), 'muster-bench-rack-'));
    const kubeadm = join(home, 'kubeadm-pair.yaml');
    writeFileSync(kubeadm, kubeadmPair());
    return {
      cases: [
        {
          rounds: 1,
          figures: {
            up: { name: `Power-on to the last operating system up, ${MACHINES}`, unit: 's', better: 'less' },
            api: {
              name: 'From the last operating system up until the API server answers',
              unit: 's',
              better: 'less',
            },
            ready: {
              name: 'From the last operating system up until all nodes are Ready',
              unit: 's',
              better: 'less',
            },
          },
          ours: async () => {
            const { result } = await play(PAIR, 'kubernetes-pair');
            const up = lastUp(result);
            return {
              up,
              api: heldAt(result, './kubectl get --raw /readyz') - up,
              ready: heldAt(result, './kubectl get nodes') - up,
            };
          },
          peers: {
            'kubeadm init and join': async () => {
              const { result, console } = await play(kubeadm, 'kubeadm-pair');
              const up = lastUp(result);
              const said = (what: string): number =>
                Number(new RegExp(`KUBEADM ${what} (\\d+) s`).exec(console)![1]);
              // The script's clock begins when the machine's services start.
              const began = result.seconds - said('all Ready');
              return { up, api: began + said('init done') - up, ready: result.seconds - up };
            },
          },
        },
      ],
      close: async () => rmSync(home, { recursive: true, force: true }),
    };
  },
};
