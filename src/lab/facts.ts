/**
 * How the rack learns the state of a machine without logging in. A unit that is added to the lab's
 * profiles prints one line of JSON on the second serial port when the system has reported ready.
 * The probe system prints such a line without the unit.
 */
import type { Facts } from './observed.ts';
import type { Expectation } from './steps.ts';

const FACTS = 'MUSTER-FACTS ';
const PROBE = 'MUSTER-PROBE ';
const PORT = '/dev/ttyS1';

/** The script is in Python, because cloud-init depends on Python and Python's JSON is correct. */
const SCRIPT = `import base64, grp, json, os, pwd, subprocess, sys, time

def run(*words):
    return subprocess.run(words, capture_output=True, text=True).stdout

def file(path):
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return {"absent": True}
    return {"absent": False, "mode": "%04o" % (stat.st_mode & 0o7777), "owner": pwd.getpwuid(stat.st_uid).pw_name,
            "group": grp.getgrgid(stat.st_gid).gr_name, "content": open(path, errors="replace").read()}

def user(entry):
    try:
        keys = open(entry.pw_dir + "/.ssh/authorized_keys").read()
    except OSError:
        keys = ""
    may = subprocess.run(["sudo", "-n", "-l", "-U", entry.pw_name], capture_output=True, text=True).stdout
    return {"uid": entry.pw_uid, "shell": entry.pw_shell, "home": entry.pw_dir,
            "groups": run("id", "-nG", entry.pw_name).split(), "sudo": "NOPASSWD: ALL" in may,
            "sshKeys": [line for line in keys.splitlines() if line and not line.startswith("#")]}

asked = json.load(open(sys.argv[1]))
links = json.loads(run("ip", "-j", "addr"))
facts = {
    "hostname": run("hostname").strip(),
    "addresses": {link["address"]: ["%s/%s" % (a["local"], a["prefixlen"]) for a in link["addr_info"] if a["family"] == "inet"]
                  for link in links if "address" in link and link["link_type"] == "ether"},
    "files": {path: file(path) for path in asked["files"]},
    "users": {entry.pw_name: user(entry) for entry in pwd.getpwall() if entry.pw_name in asked["users"]},
    "units": {unit: run("systemctl", "is-active", unit).strip() for unit in asked["units"]},
    "commandLine": open("/proc/cmdline").read().strip(),
    "clock": time.time(),
}
with open("${PORT}", "w") as port:
    port.write("${FACTS}" + json.dumps(facts) + "\\n")
`;

const UNIT = `[Unit]
Description=Reports the facts of this machine (virtual rack)
DefaultDependencies=no
After=multi-user.target muster-ready.service
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /opt/muster-lab/facts.py /opt/muster-lab/asked.json
[Install]
WantedBy=multi-user.target
`;

/**
 * Kernel arguments for emulated machines. `no_timer_check`: a busy host delivers the interrupts of
 * an emulated timer late, and a kernel that counts them early in its boot panics with "IO-APIC +
 * timer doesn't work"; under KVM the kernel does not count them either (arch/x86/kernel/kvm.c).
 * `mitigations=off`: the mitigations for real processors take a twentieth of the time of a boot.
 * `init_on_alloc=0`: clearing memory at each allocation was high in the kernel's profile of a boot.
 */
const EMULATED_ARGUMENTS = ['no_timer_check', 'mitigations=off', 'init_on_alloc=0'];

type Loose = Record<string, unknown>;
const object = (value: unknown): Loose =>
  typeof value === 'object' && value !== null ? (value as Loose) : {};
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/**
 * The scenario's documents with two additions: every Profile of a full system gets the unit, and
 * the probe's kernel command line gets the second serial port. Other documents are not changed;
 * Muster checks them.
 */
export function withFacts(documents: readonly Loose[], expectations: readonly Expectation[]): Loose[] {
  const asked = {
    files: expectations.flatMap((one) => (one.file ? [one.file.path] : [])),
    users: expectations.flatMap((one) => (one.user ? [one.user.name] : [])),
    units: expectations.flatMap((one) => (one.unit ? [one.unit.name] : [])),
  };
  return documents.map((document) => {
    const spec = object(document.spec);
    if (document.kind !== 'Profile' || typeof spec.image !== 'string') return document;
    const kernelArguments = [...list(spec.kernelArguments), ...EMULATED_ARGUMENTS];
    if (spec.image === 'probe')
      return {
        ...document,
        spec: { ...spec, kernelArguments: [...kernelArguments, `probe.copy=${PORT}`] },
      };
    const config = object(spec.config);
    const files = [
      ...list(config.files),
      { path: '/opt/muster-lab/facts.py', mode: '0644', content: SCRIPT },
      { path: '/opt/muster-lab/asked.json', mode: '0644', content: JSON.stringify(asked) },
    ];
    const units = [
      ...list(config.units),
      { name: 'muster-lab-facts.service', enabled: true, contents: UNIT },
    ];
    return { ...document, spec: { ...spec, kernelArguments, config: { ...config, files, units } } };
  });
}

/** The facts in the last complete line from the serial port; undefined while there is none. */
export function readFacts(text: string): Facts | undefined {
  let found: Facts | undefined;
  for (const line of text.split('\n').slice(0, -1)) {
    const clean = line.replace(/\r$/, '');
    try {
      if (clean.startsWith(FACTS)) found = JSON.parse(clean.slice(FACTS.length)) as Facts;
      else if (clean.startsWith(PROBE)) found = probeFacts(JSON.parse(clean.slice(PROBE.length)) as Probe);
    } catch {
      // The line was cut in two by a reboot.
    }
  }
  return found;
}

interface Probe {
  readonly mac: string;
  readonly clock: { readonly now: number };
  readonly cmdline: string;
  /** Lines `eth0 10.77.0.10/24`. */
  readonly addresses: string;
  readonly lease: Readonly<Record<string, string>>;
  readonly documents: NonNullable<Facts['documents']>;
  readonly failure: string;
}

function probeFacts(probe: Probe): Facts {
  const addresses = probe.addresses
    .split('\n')
    .map((line) => line.split(' ')[1])
    .filter((address): address is string => address !== undefined);
  return {
    addresses: { [probe.mac]: addresses },
    commandLine: probe.cmdline,
    clock: probe.clock.now,
    documents: probe.documents,
    ...(probe.lease.hostname ? { hostname: probe.lease.hostname } : {}),
    ...(probe.lease.serverid ? { dhcpServer: probe.lease.serverid } : {}),
    ...(probe.failure ? { failure: probe.failure } : {}),
  };
}
