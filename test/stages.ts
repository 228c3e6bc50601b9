/**
 * Which tests run when. `make test` runs every test that is not listed here; `make test-long` runs
 * the others, `make test-all` and CI run both, and `make torture` runs what CI need not repeat. A
 * file is listed for what it costs and for what it alone would find: docs/decisions/0151.
 */

/**
 * The parts of `make peers-long`. Several run at once, each in its own namespaces, so a part is
 * what may run one file after the other.
 */
export type LongPart = 'long-agent' | 'long-peers' | 'long-etcd' | 'long-members' | 'long-changes';

interface Long {
  /** Seconds of the file on two processors, with two other parts beside it. */
  readonly seconds: number;
  /** What it alone would find, or where the same is found sooner. */
  readonly finds: string;
}

/** Files of test/peers that `make test` leaves to `make test-long`. */
export const LONG: Readonly<Record<LongPart, Readonly<Record<string, Long>>>> = {
  'long-agent': {
    'agent-disk': { seconds: 136, finds: 'a foreign disk that the agent would write to' },
    'agent-kill': { seconds: 100, finds: 'an effect of the agent that cannot be repeated' },
    'agent-kept': { seconds: 79, finds: 'a boot disk that does not start without the boot host' },
    'agent-evidence': { seconds: 53, finds: 'a probe of etcd 3.4 or 3.5 that believes the wrong thing' },
    'agent-upgrade': { seconds: 41, finds: 'a released agent that cannot become the present one' },
    'agent-encrypted': { seconds: 35, finds: 'a data disk that does not open again' },
    'agent-tpm': { seconds: 27, finds: 'a key that leaves its TPM' },
  },
  'long-peers': {
    'install-kill': { seconds: 60, finds: 'an installation that a power cut leaves half, and that starts' },
    'store-etcd': { seconds: 46, finds: 'a store on etcd that loses or repeats a commit' },
    'boot-address': { seconds: 50, finds: 'a boot address that nobody or two hosts answer at' },
    siblings: { seconds: 50, finds: 'a host that stands by and lacks a file that it says it has' },
    hosts: { seconds: 45, finds: 'two boot hosts that act at once' },
    deb: { seconds: 51, finds: 'a package that does not install or start' },
    bridges: { seconds: 49, finds: 'an old CA that a bridge does not keep valid' },
    'first-cluster': { seconds: 43, finds: 'a step of docs/first-cluster.md that does not work' },
    simulated: { seconds: 39, finds: 'a rack of simulated machines that does not boot' },
    wipe: { seconds: 80, finds: 'a disk that counts as wiped and was not' },
    cloudinit: { seconds: 35, finds: 'a document that a release of cloud-init reads otherwise' },
  },
  'long-etcd': {
    'etcd-ha': { seconds: 300, finds: 'a second etcd, or data started on the wrong disk' },
    'agent-restore': { seconds: 88, finds: 'a restore that overwrites what still runs' },
    'etcd-turns': { seconds: 52, finds: 'a restart that does not wait for the member before it' },
    endpoint: { seconds: 48, finds: 'a virtual address that nobody or two hold' },
  },
  'long-members': {
    'etcd-members': { seconds: 445, finds: 'a member that joins, leaves or is restored wrongly' },
  },
  'long-changes': {
    'etcd-heal': {
      seconds: 240,
      finds: 'a spare that takes the place of what runs, or a write that is lost',
    },
    'etcd-backup': { seconds: 118, finds: 'a snapshot that lacks acknowledged writes' },
    'etcd-boot-host': {
      seconds: 115,
      finds: 'a restored boot host, or one with a wrong clock, that does harm',
    },
  },
};

/** Files of test/peers that only `make torture` runs, with when they were last seen to pass. */
export const TORTURE: Readonly<Record<string, Long & { readonly seen: string }>> = {
  'etcd-roll': {
    seconds: 99,
    finds: 'nothing alone: etcd-upgrade has the same turns, and the model of rolls all orders',
    seen: '2026-11-28',
  },
  'etcd-generations': {
    seconds: 28,
    finds: 'nothing alone: etcd-rotation passes through two generations of each CA',
    seen: '2026-11-28',
  },
};

/** Scenarios of the rack that `make test` runs: each kind of firmware boots once. */
export const QUICK_SCENARIOS: Readonly<Record<string, string>> = {
  demo: 'BIOS and UEFI boot a whole system, and an unknown machine is held',
  'uefi-http': 'UEFI boots by HTTP',
  'proxy-dhcp': 'BIOS and UEFI boot where another server gives the addresses',
  chainload: 'the three loaders, and a firmware that asks port 4011',
  tickets: 'an attacker beside two boots',
};

/** Scenarios that only `make torture` runs, with where the same is found sooner. */
export const TORTURE_SCENARIOS: Readonly<Record<string, string>> = {
  'etcd-ha': 'test/peers/etcd-ha.test.ts, etcd-founding.test.ts and etcd-boot-host.test.ts',
  'etcd-ha-staggered': 'test/peers/etcd-founding.test.ts',
  'secure-boot': 'test/unit/pxe/script/grub.test.ts has the scripts, uefi-http boots UEFI',
  installed:
    'test/peers/install.test.ts and install-kill.test.ts have the steps, with disks that nothing starts',
  imported: 'test/peers/image-import.test.ts has what is made of an image; cloud-init boots the same scripts',
  'boot-uefi': 'demo boots UEFI, and cloud-init sets a wrong clock right',
  'debian-12': 'test/peers/cloudinit.test.ts reads the documents with the cloud-init of Debian 12',
};
