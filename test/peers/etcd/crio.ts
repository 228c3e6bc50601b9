/**
 * The real CRI-O, the programs that it starts and crictl, from bin/ of MUSTER_ARTIFACTS, and a fake
 * crictl for hosts without them. Needs scripts/in-namespace.sh.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { crictlLine } from '../../../src/cluster/plan/cri.ts';
import { ARTIFACTS } from '../../artifacts.ts';
import type { Machine } from '../agent-kit.ts';
import { daemon } from '../dhcp-segment.ts';
import { IMAGE, PROGRAMS } from './pod.ts';

const BIN = join(ARTIFACTS ?? '', 'bin');
/** Whether all these programs exist. */
export const CRIO_IS_THERE =
  ARTIFACTS !== undefined &&
  ['crio', 'conmon', 'pinns', 'runc', 'crictl'].every((name) => fs.existsSync(join(BIN, name)));

type Daemon = Awaited<ReturnType<typeof daemon>>;

export class Crio {
  readonly socket: string;
  readonly #home: string;
  readonly #mirror: string;
  #daemon?: Daemon;

  private constructor(mirror: string) {
    this.#home = fs.mkdtempSync('/run/crio-');
    this.#mirror = mirror;
    this.socket = join(this.#home, 'crio.sock');
  }

  /**
   * CRI-O asks `mirror`, HOST:PORT, before the registry of etcd's image, and does not check its
   * certificate.
   */
  static async start(mirror: string): Promise<Crio> {
    const crio = new Crio(mirror);
    await crio.#run();
    return crio;
  }

  async #run(): Promise<void> {
    const home = this.#home;
    const file = (name: string, text: string): string => {
      fs.writeFileSync(join(home, name), text);
      return join(home, name);
    };
    for (const name of ['registries.conf.d', 'net.d', 'hooks.d'])
      fs.mkdirSync(join(home, name), { recursive: true });
    const policy = file('policy.json', '{"default":[{"type":"insecureAcceptAnything"}]}\n');
    const registries = file(
      'registries.conf',
      `[[registry]]\nprefix = "registry.k8s.io"\nlocation = "registry.k8s.io"\n[[registry.mirror]]\nlocation = "${this.#mirror}/registry.k8s.io"\ninsecure = true\n`,
    );
    const config = file('crio.conf', settings(home, policy));
    const { content } = crictlLine(`unix://${this.socket}`) as { content: { text: string } };
    file('crictl.yaml', content.text);
    const words = [
      ...[join(BIN, 'crio'), '--config', config, '--config-dir', '', '--version-file-persist', ''],
      ...['--registries-conf', registries, '--registries-conf-dir', join(home, 'registries.conf.d')],
    ];
    // The directory of CRI-O's cache of layers.
    const env = { ...process.env, XDG_DATA_HOME: home };
    this.#daemon = await daemon(
      undefined,
      words,
      /Registered SIGHUP|Starting seccomp notifier|sandboxes:/,
      env,
    );
  }

  /**
   * Simulates a power cut: kills CRI-O and its containers, unmounts everything and clears /run.
   * Then CRI-O runs again.
   */
  async cutPower(): Promise<void> {
    process.kill(this.#daemon!.pid, 'SIGKILL');
    await this.#daemon!.stop();
    for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
      try {
        const about = ['cmdline', 'cgroup'].map((name) => fs.readFileSync(`/proc/${pid}/${name}`, 'utf8'));
        if (about[0]!.includes(this.#home) || about[1]!.includes('/crio/crio-'))
          process.kill(Number(pid), 'SIGKILL');
      } catch {} // It has ended already.
    const mounted = fs
      .readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .map((line) => line.split(' ')[1]!);
    for (const at of mounted.reverse()) if (at?.startsWith(`${this.#home}/`)) execFileSync('umount', [at]);
    for (const name of ['runroot', 'version', 'ns', 'exits', 'attach', 'runc'])
      fs.rmSync(join(this.#home, name), { recursive: true, force: true });
    await this.#run();
  }

  /** Runs a command of crictl; returns its output. */
  crictl(...words: readonly string[]): string {
    const [program, ...config] = this.program;
    return execFileSync(program!, [...config, ...words], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  /** crictl with the same settings as on machines. */
  get program(): readonly string[] {
    return [join(BIN, 'crictl'), '--config', join(this.#home, 'crictl.yaml')];
  }

  /**
   * Makes the container of a pod as kubelet would, with that data directory as /var/lib/etcd.
   * Returns its id.
   */
  run(pod: string, data: string, ...command: readonly string[]): string {
    const labels = { 'io.kubernetes.pod.namespace': 'kube-system', 'io.kubernetes.pod.name': pod };
    const linux = { security_context: { namespace_options: { network: 2, pid: 1 } } };
    const sandbox = join(this.#home, `${pod}.json`);
    const container = join(this.#home, `${pod}.etcd.json`);
    fs.writeFileSync(
      sandbox,
      JSON.stringify({
        metadata: { name: pod, namespace: 'kube-system', uid: pod },
        labels,
        log_directory: this.#home,
        linux,
      }),
    );
    fs.writeFileSync(
      container,
      JSON.stringify({
        metadata: { name: 'etcd' },
        image: { image: IMAGE },
        command,
        labels: { ...labels, 'io.kubernetes.container.name': 'etcd' },
        linux,
        mounts: [{ host_path: data, container_path: '/var/lib/etcd' }],
        log_path: `${pod}.log`,
      }),
    );
    const id = this.crictl('create', this.crictl('runp', sandbox).trim(), container, sandbox).trim();
    this.crictl('start', id);
    return id;
  }

  /** `CONTAINER_RUNNING`, `CONTAINER_EXITED`. */
  state(id: string): string {
    return this.crictl('inspect', '-o', 'go-template', '--template', '{{.status.state}}', id).trim();
  }

  async stop(): Promise<void> {
    this.crictl('rmp', '--all', '--force');
    await this.#daemon!.stop();
    fs.rmSync(this.#home, { recursive: true, force: true });
    // Cgroups that its pods left, which have no parent; those of kubelet's pods lie deeper.
    const ours = ['-type', 'd', '(', '-name', 'crio', '-o', '-name', 'crio-*', ')', '!', '-name', '*.scope'];
    const remove = ['-exec', 'rmdir', '{}', '+'];
    spawnSync('find', ['/sys/fs/cgroup', '-maxdepth', '3', '-depth', ...ours, ...remove]);
  }
}

/** The settings of src/cluster/plan/cri-o.ts, in one directory and without a service manager. */
const settings = (home: string, policy: string): string => `[crio]
root = "${home}/root"
runroot = "${home}/runroot"
storage_driver = "overlay"
log_dir = "${home}/log"
version_file = "${home}/version"
clean_shutdown_file = "${home}/clean"
[crio.api]
listen = "${home}/crio.sock"
[crio.runtime]
cgroup_manager = "cgroupfs"
default_runtime = "runc"
pinns_path = "${BIN}/pinns"
namespaces_dir = "${home}/ns"
container_exits_dir = "${home}/exits"
container_attach_socket_dir = "${home}/attach"
hooks_dir = ["${home}/hooks.d"]
disable_hostport_mapping = true
irqbalance_config_restore_file = "disable"
[crio.runtime.runtimes.runc]
runtime_path = "${BIN}/runc"
runtime_root = "${home}/runc"
monitor_path = "${BIN}/conmon"
monitor_cgroup = "pod"
[crio.image]
pause_image = "${IMAGE}"
pause_command = "/usr/local/bin/etcd"
signature_policy = "${policy}"
[crio.network]
network_dir = "${home}/net.d"
plugin_dirs = ["${home}/net.d"]
[crio.nri]
enable_nri = false
`;

/**
 * A fake crictl for `machine` with the answers of the real one for CRI-O
 * (test/peers/agent-restore-crio.test.ts). It logs its arguments to /crictl.log. A pod of the same
 * name is left from an agent that was killed.
 */
export function standInForCrictl(machine: Machine): void {
  const files = machine.path('/files/usr/local/bin');
  fs.mkdirSync(files, { recursive: true });
  for (const [name, program] of Object.entries(PROGRAMS)) fs.copyFileSync(program, join(files, name));
  machine.write('/pods/old', '');
  machine.command(
    'crictl',
    `#!/bin/sh
cd "$MUSTER_ROOT" || exit
echo "$*" >>crictl.log
# The container's namespaces have to be its pod's, of which none has a process.
fits() { node -e '
  const of = (file) => JSON.parse(require("fs").readFileSync(file)).linux.security_context.namespace_options;
  const [pod, container] = process.argv.slice(1).map(of);
  process.exit(pod.pid === 1 && pod.network === 2 && container.pid === 1 && container.network === 2 ? 0 : 1)' "$@"; }
[ "$1 $2" = '--timeout 2m' ] || exit 1
case $3 in
  pods) ls pods ;;
  inspecti) [ -e pulled ] ;;
  pull) : >pulled ;;
  runp) fits "$4" "$4" && [ -z "$(ls pods)" ] || { echo 'name is reserved' >&2; exit 1; }
    : >pods/new && echo new ;;
  create) fits "$6" "$5" && [ -e pulled ] && [ -e "pods/$4" ] && echo container ;;
  inspect) [ "$8" = container ] && echo "$MUSTER_ROOT/files" ;;
  rmp) ! findmnt -M run/muster/etcd-image && rm "pods/$5" ;;
esac
`,
  );
}
