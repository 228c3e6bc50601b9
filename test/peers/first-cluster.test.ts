/**
 * Checks that `docs/first-cluster.md` and the removal in `docs/install.md` are true: runs their
 * commands in order and as they are written, in one shell on a separate boot host whose /etc, /usr
 * and /var are temporary copies. Where a command needs a download or a machine, files of the right
 * shape or simulated machines (src/lab/simulated) take its place. Commands that are not run are
 * listed here.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FleetOrder, FleetResult } from '../../src/lab/simulated/fleet.files.ts';

const ROOT = path.join(import.meta.dirname, '../..');
const read = (file: string): string => fs.readFileSync(path.join(ROOT, file), 'utf8');

/** The lines of all `sh` code blocks of a page, or of one of its sections. */
function commandsOf(page: string, heading = ''): readonly string[] {
  const text = read(page);
  const section = heading === '' ? text : text.split(/^## /m).find((part) => part.startsWith(heading));
  expect(section, `${page} has a section ${heading}`).toBeDefined();
  return [...section!.matchAll(/^```sh\n([\s\S]*?)^```/gm)].flatMap(([, body]) =>
    body!.trimEnd().replaceAll('\\\n', ' ').split('\n'),
  );
}

const FIRST_CLUSTER = commandsOf('docs/first-cluster.md');
const REMOVAL = commandsOf('docs/install.md', 'Remove Muster');

/** The commands that are not run, each with the reason. */
const NOT_RUN: Readonly<Record<string, string>> = {
  'apt-get update': 'changes the host; the next test compares the packages',
  'apt-get install --yes git make npm libatomic1 ipxe mmdebstrap squashfs-tools cryptsetup-bin zstd':
    'changes the host; the next test compares the packages',
  'npm ci': 'needs the registry; the test uses the node_modules of this checkout',
  'muster events --follow': 'does not end; test/peers/command.test.ts',
  'muster cluster verify blue --wait=20m': 'needs API servers; lab/kubernetes-*.yaml run it',
  'kubectl --kubeconfig=blue.kubeconfig get nodes': 'needs API servers; lab/kubernetes-*.yaml run it',
};

const APPROVE = 'muster machine approve --all --cluster blue';

/** The commands that are changed before they are run, each with the reason. */
const INSTEAD: Readonly<Record<string, readonly [command: string, why: string]>> = {
  'git clone URL muster': [`ln -s '${ROOT}' muster`, 'URL is a placeholder; this checkout is taken'],
  'make install': [
    'make --assume-old=node_modules install',
    'without npm ci, even when node_modules of this checkout is old',
  ],
  [APPROVE]: [
    `until muster machine waiting | grep -c blue | grep -qx 5; do sleep 0.2; done; ${APPROVE} --confirm "$(${APPROVE} 2>&1 | sed -n 's/.*--confirm //p' | cut -d' ' -f1)"`,
    'it asks a person at a terminal; --confirm answers',
  ],
  'muster artifacts pull blue': ['bring', 'downloads; files of the right shape are imported instead'],
};

/** The exit codes of commands that do not end with 0. */
const EXIT_CODES: Readonly<Record<string, readonly number[]>> = {
  // Everything is missing the first time.
  'muster artifacts plan blue': [1, 0],
  // The simulated machines have no API server.
  'muster cluster status blue': [1],
};

/** Behaves like systemctl of systemd 252 and newer, as far as the pages need it. */
const SYSTEMCTL = `#!/bin/bash
unit=/usr/lib/systemd/system/muster.service
case "$*" in
  daemon-reload | 'disable muster muster-signer.socket muster-signer-operator.socket') ;;
  'enable --now muster')
    # The service as its unit starts it; Muster opens the sockets itself.
    set -a
    . <(sed -n 's/^Environment=//p' "$unit")
    . /etc/default/muster
    $(sed -n 's/^ExecStart=//p' "$unit") >/run/muster.log 2>&1 &
    echo $! >/run/muster.pid
    for _ in $(seq 600); do
      grep -q '"ready: ' /run/muster.log && exit 0
      sleep 0.1
    done
    cat /run/muster.log >&2
    exit 1
    ;;
  "stop muster*")
    kill "$(cat /run/muster.pid)"
    # Process 1 of this namespace does not collect it: one that has ended has no command line.
    while [ -n "$(tr -d '\\0' <"/proc/$(cat /run/muster.pid)/cmdline")" ]; do sleep 0.1; done
    ;;
  *)
    echo "Too many or unknown arguments: $*" >&2
    exit 1
    ;;
esac
`;

/**
 * Takes the place of `muster artifacts pull`: writes a file for every line of the plan and an image
 * for every reference.
 */
const BRING = `#!/bin/bash
set -eu
cd /run/brought
printf 'a program' >program
tar -czf programs.tgz program
muster artifacts plan blue -o json >plan.json || [ $? = 1 ]
'${process.execPath}' -e '
  const words = JSON.parse(require("fs").readFileSync("plan.json", "utf8")).flatMap(({ required }) =>
    required.kind === "image" ? ["--image", required.reference + "=./program:/program"]
    : required.kind === "binary" ? ["--binary", required.name + ":" + required.version + "=" + (required.form === "tar" ? "./programs.tgz" : "./program")]
    : []);
  console.log(words.join("\\n"));
' >words
mapfile -t words <words
muster artifacts pack packed "\${words[@]}"
muster artifacts import packed
`;

/**
 * Values of the examples that the page copies, and their machines without what only real ones have.
 */
const MACHINES = [
  ...read('profiles/machines/blue.yaml.example').matchAll(
    /^metadata: \{name: (\w+)\}[\s\S]*?macs: \["(\S+)"\][\s\S]*?addresses: \[(\S+)\]/gm,
  ),
].map(([, name, mac, address]) => ({ name: name!, mac: mac!, address: address!, dataDisk: true }));
const ORDER: FleetOrder = { machines: MACHINES, members: 3, perSecond: 5, keep: true };

const IMAGE = path.basename(
  execFileSync(path.join(ROOT, 'images/debian/build.sh'), ['--kubernetes', '--print-directory'], {
    encoding: 'utf8',
  }).trim(),
);

/** Writes tiny files in place of a built image, which the recipe then does not build again. */
const BUILT = `
out=/var/cache/muster-images/${IMAGE}
mkdir -p "$out"
for file in kernel initrd root.squashfs; do echo "$file" >"$out/$file"; done
describe() { printf '{"name":"%s","sha256":"%s","size":%d}' "$1" "$(sha256sum <"$out/$1" | cut -d' ' -f1)" "$(stat -c %s "$out/$1")"; }
cat >"$out/image.json" <<JSON
{"name": "debian-13-kubernetes", "os": "debian", "version": "13", "suite": "trixie", "arch": "x86_64", "recipe": "0",
 "configFormat": "cloud-init", "kernelVersion": "6", "cloudInitVersion": "25.1.4", "sourceDateEpoch": 0,
 "kernelArguments": ["boot=muster"], "kernel": $(describe kernel), "initrd": $(describe initrd), "root": $(describe root.squashfs)}
JSON
`;

/** The namespace of the machines behind eth1, in which all their addresses are local. */
const SEGMENT = `
ip link set lo up
ip netns add machines
ip link add eth1 type veth peer name eth0 netns machines
ip address add 10.77.0.1/24 dev eth1
ip link set eth1 up
ip -n machines address add 10.77.0.2/24 dev eth0
ip -n machines link set eth0 up
ip -n machines link set lo up
ip -n machines route add local 10.77.0.208/28 dev lo
ip -n machines route add local 10.77.0.220/30 dev lo
ip -n machines route add 255.255.255.255 dev eth0
`;

const dir = fs.mkdtempSync('/tmp/muster-first-cluster-');
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

interface Ran {
  readonly command: string;
  readonly status: number | undefined;
  readonly output: string;
}

let ran: readonly Ran[] = [];
let remains = '';

const fileOf = (n: number, kind: string): string => path.join(dir, `${n}.${kind}`);

/** The script that runs each command in the same shell and writes output and exit code to files. */
function script(commands: readonly string[]): string {
  const run = commands.flatMap((command, n) => {
    const lines: string[] = [];
    if (command === APPROVE)
      // `Power the machines on` is not a command.
      lines.push(
        `ip netns exec machines '${process.execPath}' '${ROOT}/src/lab/simulated/fleet.files.ts' '${dir}/order.json' '${dir}/result.json' >'${dir}/fleet.log' 2>&1 </dev/null &`,
        'fleet=$!',
      );
    if (command === 'muster get machines') lines.push('wait "$fleet"');
    if (Object.hasOwn(NOT_RUN, command)) return lines;
    lines.push(
      `{ ${INSTEAD[command]?.[0] ?? command}`,
      `} >'${fileOf(n, 'out')}' 2>'${fileOf(n, 'err')}' </dev/null; echo $? >'${fileOf(n, 'rc')}'`,
    );
    return lines;
  });
  return `
set -eu
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/muster /run/stubs /run/brought /run/upper /run/home /run/systemd/system
for tree in etc usr var; do
  mkdir -p "/run/upper/$tree" "/run/upper/$tree.work"
  mount -t overlay overlay -o "lowerdir=/$tree,upperdir=/run/upper/$tree,workdir=/run/upper/$tree.work" "/$tree"
done
${SEGMENT}
${BUILT}
install -m 0755 '${dir}/systemctl' /run/stubs/systemctl
install -m 0755 '${dir}/bring' /run/stubs/bring
export PATH="/run/stubs:$PATH" HOME=/run/home
cd /run/home
(cd / && find usr etc var -name '*muster*' | sort) >'${dir}/before'
set +eu
${run.join('\n')}
(cd / && find usr etc var -name '*muster*' | sort) >'${dir}/after'
cp /run/home/blue.kubeconfig '${dir}/'
`;
}

/** The files that the page's commands name and that an operator would have. */
const CARRIED = `(cd /run/brought && printf 'a program' >program && cp program kubelet && cp program kubectl && muster artifacts pack images --image registry.example/own:1=./program:/program && cp -r kubelet kubectl images /run/home/) >'${path.join(dir, 'carried')}' 2>&1 </dev/null`;

beforeAll(() => {
  const commands = [...FIRST_CLUSTER, ...REMOVAL];
  fs.writeFileSync(path.join(dir, 'systemctl'), SYSTEMCTL);
  fs.writeFileSync(path.join(dir, 'bring'), BRING);
  fs.writeFileSync(path.join(dir, 'order.json'), JSON.stringify(ORDER));
  const whole = script(commands).replace(
    '{ muster artifacts plan blue -o json\n',
    `${CARRIED}\n{ muster artifacts plan blue -o json\n`,
  );
  fs.writeFileSync(path.join(dir, 'script'), whole);
  const { status, stdout, stderr } = spawnSync(
    'unshare',
    ['--mount', '--net', 'bash', path.join(dir, 'script')],
    { encoding: 'utf8', timeout: 240_000 },
  );
  if (status !== 0) throw new Error(`the shell ended with ${status}:\n${stdout}${stderr}`);
  const text = (n: number, kind: string): string =>
    fs.existsSync(fileOf(n, kind)) ? fs.readFileSync(fileOf(n, kind), 'utf8') : '';
  ran = commands.map((command, n) => ({
    command,
    status: text(n, 'rc') === '' ? undefined : Number(text(n, 'rc')),
    output: text(n, 'out') + text(n, 'err'),
  }));
  const before = new Set(fs.readFileSync(path.join(dir, 'before'), 'utf8').split('\n'));
  remains = fs
    .readFileSync(path.join(dir, 'after'), 'utf8')
    .split('\n')
    .filter((line) => !before.has(line))
    .join('\n');
}, 300_000);

const outputs = (command: string): readonly string[] =>
  ran.filter((one) => one.command === command).map(({ output }) => output);

describe('docs/first-cluster.md', () => {
  it('every command of docs/first-cluster.md is run or listed as not run, and every listed command is on a page', () => {
    const shown = [...FIRST_CLUSTER, ...REMOVAL];
    expect(FIRST_CLUSTER.length).toBeGreaterThan(25);
    for (const command of [...Object.keys(NOT_RUN), ...Object.keys(INSTEAD), ...Object.keys(EXIT_CODES)])
      expect(shown).toContain(command);
    for (const { command, status } of ran)
      expect(status === undefined, command).toBe(Object.hasOwn(NOT_RUN, command));
  });

  it('docs/first-cluster.md installs npm and the packages that the demo needs to build images', () => {
    const [, list] = /^apt-get install --yes (.*)$/m.exec(read('docs/first-cluster.md'))!;
    const known = read('debian-packages.txt')
      .split('\n')
      .map((line) => line.split(/\s+/)[0]!);
    for (const name of list!.split(' ').filter((one) => !['git', 'make', 'npm'].includes(one)))
      expect(known).toContain(name);
  });

  it('all commands of docs/first-cluster.md end as the page says', () => {
    const seen = new Map<string, number>();
    for (const { command, status, output } of ran) {
      if (status === undefined) continue;
      const times = seen.get(command) ?? 0;
      seen.set(command, times + 1);
      expect(status, `${command}\n${output}`).toBe(EXIT_CODES[command]?.[times] ?? 0);
    }
  });

  it('docs/first-cluster.md leads to a complete image and complete artifacts', () => {
    expect(outputs('muster status')[0]).toContain('ready');
    expect(outputs('muster image ls')[0]).toMatch(/^debian-13-kubernetes .*complete/m);
    const [first, second] = outputs('muster artifacts plan blue');
    expect(first).toMatch(/ missing$/m);
    expect(second).not.toMatch(/ missing$/m);
    expect(second).toMatch(/ here$/m);
  });

  it('docs/first-cluster.md leads to machines that boot, found etcd together and get everything that they need', () => {
    const result = JSON.parse(fs.readFileSync(path.join(dir, 'result.json'), 'utf8')) as FleetResult;
    expect(result.machines.map(({ name, error }) => ({ name, error }))).toEqual(
      MACHINES.map(({ name }) => ({ name, error: undefined })),
    );
    const [listed] = outputs('muster get machines');
    for (const { name, address } of MACHINES)
      expect(listed).toMatch(new RegExp(`^${name} +ready .*${address}`, 'm'));
    expect(outputs('muster cluster founding blue')[0]).toContain('founded');
    const worker = result.machines.find(({ name }) => name === 'w1')!.kept!;
    expect(worker.units).toContain('kubelet.service');
    expect(JSON.stringify(worker.files)).toContain('10.77.0.211');
  });

  it('docs/first-cluster.md ends with a kubeconfig for the address of the Cluster document', () => {
    const kubeconfig = fs.readFileSync(path.join(dir, 'blue.kubeconfig'), 'utf8');
    expect(kubeconfig).toMatch(/server: "?https:\/\/10\.77\.0\.210:6443/);
    expect(kubeconfig).toContain('client-certificate-data: ');
  });
});

describe('docs/install.md', () => {
  it('the removal in docs/install.md removes everything except the files that it says are yours', () => {
    const kept = [
      ...read('docs/install.md')
        .split(/^## Remove Muster$/m)[1]!
        .matchAll(/^\| `(\/[^`]+)` \|/gm),
    ].map(([, file]) => file!.replace(/^\/|\/$/g, ''));
    expect(kept.length).toBeGreaterThan(2);
    const left = remains
      .split('\n')
      .filter((file) => file !== '' && !kept.some((own) => file.startsWith(own)));
    expect(left).toEqual([]);
  });
});
