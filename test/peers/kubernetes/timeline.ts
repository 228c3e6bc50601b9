/**
 * Which version of each program ran on each machine at every instant, from what the machines'
 * kubelets wrote (kubelet.ts), and which of these instants Kubernetes' version skew
 * policy forbids.
 */
import type { Machine } from '../etcd/rack.ts';

/** From then on the machine has this version of the program. */
interface Start {
  readonly at: string;
  readonly machine: string;
  readonly program: string;
  readonly version: string;
}

const LINE = /^(\S+) start (\S+) v(\d+\.\d+\.\d+)$/;

export class Timeline {
  readonly #machines: readonly Machine[];
  readonly #seen = new Set<string>();
  readonly #starts: Start[] = [];

  constructor(machines: readonly Machine[]) {
    this.#machines = machines;
  }

  /** Reads what the machines wrote; a machine that loses its power loses its log. */
  read(): void {
    for (const { name: machine, read } of this.#machines.map((one) => ({
      name: one.name,
      read: one.read('/run/kubelet.pods.log') ?? '',
    })))
      for (const line of read.split('\n')) {
        const [, at, program, version] = LINE.exec(line) ?? [];
        if (at === undefined || this.#seen.has(`${machine} ${line}`)) continue;
        this.#seen.add(`${machine} ${line}`);
        this.#starts.push({ at, machine, program: program!, version: version! });
      }
  }

  /** Whether a program was started with this version on any machine. */
  has(program: string, version: string): boolean {
    return this.#starts.some((one) => one.program === program && one.version === version);
  }

  /** How often a program was started. */
  starts(program: string): number {
    return this.#starts.filter((one) => one.program === program).length;
  }

  /**
   * Every combination of versions that was there, in order: `API servers | controller managers |
   * schedulers | kubelets`, and the forbidden ones. A program counts with its last version until
   * the next start.
   */
  states(): { readonly all: readonly string[]; readonly forbidden: readonly string[] } {
    const now = new Map<string, string>();
    const all: string[] = [];
    const forbidden: string[] = [];
    for (const { at, machine, program, version } of this.#starts.toSorted((a, b) => (a.at < b.at ? -1 : 1))) {
      now.set(`${program} ${machine}`, version);
      const state = this.#stateOf(now);
      if (all.at(-1) !== state) all.push(state);
      const fault = faultOf(now);
      if (fault !== undefined) forbidden.push(`${at} ${machine} ${program} ${version}: ${fault}`);
    }
    return { all, forbidden };
  }

  #stateOf(now: ReadonlyMap<string, string>): string {
    const of = (program: string): string =>
      this.#machines.map(({ name }) => now.get(`${program} ${name}`) ?? '-').join(' ');
    return ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet'].map(of).join(' | ');
  }
}

const minorOf = (version: string): number => Number(version.split('.')[1]);

function faultOf(now: ReadonlyMap<string, string>): string | undefined {
  const of = (program: string): readonly number[] =>
    [...now].filter(([key]) => key.startsWith(`${program} `)).map(([, version]) => minorOf(version));
  const servers = of('kube-apiserver');
  if (servers.length === 0) return undefined;
  const [oldest, newest] = [Math.min(...servers), Math.max(...servers)];
  if (newest - oldest > 1) return 'API servers are more than one minor version apart';
  for (const program of ['kube-controller-manager', 'kube-scheduler', 'kubelet'])
    for (const minor of of(program)) {
      if (minor > oldest) return `${program} is newer than an API server`;
      if (program !== 'kubelet' && newest - minor > 1) return `${program} is too old`;
    }
  return undefined;
}
