/**
 * Mistakes that first users made, and what they are told: each message says what to do, or at least
 * what is wrong. A new mistake is a new row.
 */
import fs from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { commandTree } from '../../../scripts/command-tree.ts';
import { parseMac } from '../../../src/base/mac.ts';
import { FOREIGN_WORDS } from '../../../src/cli/usage.ts';
import { DOCUMENTS, openWorld, type World } from '../api/world.ts';
import { type Ran, run } from './run.ts';

const MORE = `---
apiVersion: muster/v1
kind: Profile
metadata: {name: later}
spec: {image: debian-31}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:aa:00:31"], profile: worker, addresses: [10.77.0.31]}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: soon}
spec: {macs: ["52:54:00:aa:00:32"], profile: later}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  kubernetes: {version: "1.36", endpoint: 10.77.0.210, controlPlanes: [cp1]}
`;

let world: World;
/** Files that rows name as `@NAME`. */
const FILES: Readonly<Record<string, string>> = {
  'empty.yaml': '',
  'comment.yaml': '# nothing yet\n---\n',
  'tab.yaml': 'apiVersion: muster/v1\n\tkind: Machine\n',
  'brace.yaml': 'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: x\nspec: {}\n',
  'dedented.yaml': 'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: x}\nspec:\nmacs: []\n',
  'mac.yaml': 'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: x}\nspec: {mac: "52:54:00:aa:00:41"}\n',
  'macs.yaml':
    'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: x}\nspec: {macs: "52:54:00:aa:00:41"}\n',
  'kind.yaml': 'apiVersion: muster/v1\nkind: machine\nmetadata: {name: x}\nspec: {}\n',
  'version.yaml': 'apiVersion: v1\nkind: Machine\nmetadata: {name: x}\nspec: {}\n',
  'number.yaml':
    'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: 12}\nspec: {macs: ["52:54:00:aa:00:41"]}\n',
  'host-bits.yaml':
    'apiVersion: muster/v1\nkind: Network\nmetadata: {name: n}\nspec: {subnet: 10.88.0.1/24, dhcp: {mode: off}}\n',
  'twice.yaml': 'apiVersion: muster/v1\nkind: Machine\nkind: Machine\nmetadata: {name: x}\nspec: {}\n',
  'repositories.yaml':
    'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: x}\nspec: {config: {repositories: [vim]}}\n',
  'future.yaml': 'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: x}\nspec: {image: smal}\n',
  'mac-twice.yaml':
    'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: x}\nspec: {macs: ["52:54:00:aa:00:01"]}\n',
  'old-kubernetes.yaml':
    'apiVersion: muster/v1\nkind: Cluster\nmetadata: {name: x}\nspec: {trust: segment, kubernetes: {version: "1.99", endpoint: a.test, controlPlanes: [cp1]}}\n',
  'cni.yaml':
    'apiVersion: muster/v1\nkind: Cluster\nmetadata: {name: x}\nspec: {trust: segment, kubernetes: {version: "1.36", endpoint: a.test, controlPlanes: [cp1], cni: calico}}\n',
  'addon.yaml':
    'apiVersion: muster/v1\nkind: Cluster\nmetadata: {name: x}\nspec: {trust: segment, kubernetes: {version: "1.36", endpoint: a.test, controlPlanes: [cp1], addons: [{name: metallb}]}}\n',
};

beforeAll(async () => {
  world = await openWorld(DOCUMENTS + MORE);
  for (const [name, text] of Object.entries(FILES)) fs.writeFileSync(path.join(world.directory, name), text);
  const mac = parseMac('52:54:00:bb:00:01')!;
  world.roster.discover({ bootMac: mac, macs: [mac], network: 'lan' });
});
afterAll(() => world.close());

/** Splits at spaces; `@NAME` is a file of the world, `''` an empty word. */
const words = (line: string): string[] =>
  line
    .split(' ')
    .map((word) =>
      word === "''" ? '' : word.startsWith('@') ? path.join(world.directory, word.slice(1)) : word,
    );
const muster = (line: string): Promise<Ran> => run(words(line), { socket: world.socket });

/** What is typed → exit code, and what is said about it. */
const MISTAKES: readonly (readonly [line: string, code: number, said: string | RegExp])[] = [
  // words of other tools, and typing errors
  ['aply', 2, 'did you mean apply?'],
  ['get mashines', 2, 'did you mean "machines"?'],
  ['get pods', 2, /"pods" is not a kind; there are networks, images/],
  ['get nodes', 2, /"nodes" is not a kind/],
  [
    '--socket /run/muster/api.sock status',
    2,
    'options come after the command, such as `muster status --socket',
  ],
  ['get machines -A', 2, 'there are no namespaces'],
  ['get machines -n default', 2, 'there are no namespaces'],
  ['get machines -o jsonpat={.items}', 2, 'Allowed choices are table, wide, json, yaml, name'],
  ['get machines --wach', 2, 'did you mean --watch?'],
  ['describe machine node-1', 2, '`muster explain MACHINE` shows'],
  ['logs node-1', 2, '`muster events SUBJECT` shows'],
  ['patch machine node-1', 2, '`muster edit KIND NAME` changes a document'],
  ['machine edit node-1', 2, '`muster edit machine NAME` changes its document'],
  ['create -f x.yaml', 2, '`muster apply -f FILE` creates'],
  ['label machine node-1 a=b', 2, '`muster apply -f FILE` creates and changes documents, with their labels'],
  ['ls machines', 2, '`muster get KIND` lists'],
  ['list machines', 2, '`muster get KIND` lists'],
  ['upgrade cluster blue', 2, '`muster cluster upgrade CLUSTER` upgrades'],
  ['rotate ca', 2, 'did you mean `muster bmc rotate` or `muster pki rotate`?'],
  ['cluster rotate blue', 2, 'did you mean `muster bmc rotate` or `muster pki rotate`?'],
  ['cluster snapshot blue', 2, '`muster cluster backups CLUSTER` lists the snapshots'],
  ['accept node-1', 2, 'did you mean `muster machine accept`'],
  ['approve node-1', 2, 'did you mean `muster machine approve`?'],
  ['quarantine node-1', 2, 'did you mean `muster machine quarantine`?'],
  ['machine rotate node-1', 2, 'did you mean `muster bmc rotate` or `muster pki rotate`?'],
  ['operator list', 2, '`muster operator ls` lists them'],
  ['operator password ada', 2, '`muster operator invite NAME`'],
  ['reimage node-1', 2, 'machines run from memory: reboot it'],
  ['machine reboot node-1', 2, '`muster cluster roll CLUSTER` reboots'],
  ['machine power node-1', 2, '`muster power on MACHINE` switches one on'],
  [
    'wipe node-1',
    2,
    '`muster machine wipe NAME --level overwrite --reason TEXT --confirm NAME` wipes one that is out of use',
  ],
  ['machine rename node-1 node-7', 2, '`muster edit machine NAME` changes its document'],
  ['machine quarantine cp1', 2, 'write `muster machine quarantine cp1 --reason TEXT`'],
  ['operator add eve', 2, 'write `muster operator add eve --role ROLE`'],
  ['token add ada', 2, 'write `muster token add ada --label TEXT --role ROLE`'],
  ['scale cluster blue', 2, '`muster cluster add-node CLUSTER MACHINE`'],
  ['cordon node-1', 2, '`muster kubeconfig CLUSTER`'],
  ['cluster create x', 2, '`muster apply -f FILE` creates a cluster'],
  ['cluster delete blue', 2, '`muster cluster --help` lists what ends one'],
  ['cluster upgarde blue', 2, 'did you mean upgrade?'],
  ['cluster statsu blue', 2, 'did you mean status?'],
  ['machine list', 2, '`muster get machines` lists machines'],
  ['image list', 2, '`muster image ls` lists them'],
  ['serve --interfaces eth2', 2, "unknown option '--interfaces'; did you mean --interface?"],
  ['help cluster remove-nod', 2, '`muster cluster` has no command "remove-nod"'],
  // arguments and options
  ['apply machines.yaml', 2, 'write `muster apply -f machines.yaml`'],
  ['apply -k .', 2, 'write `muster apply -f .`'],
  ['apply -f nosuch.yaml', 1, 'there is no such file or directory'],
  ['apply -f https://host/x.yaml', 1, 'files come from this host; fetch it first'],
  ['get machines nosuch', 1, /there is no Machine "nosuch"; `muster get machines` lists them/],
  ['get machine node-2', 1, 'did you mean "node-1"?'],
  ['events nosuch', 1, 'no machine, document or event has the name "nosuch"'],
  ['events cluster/bleu', 1, 'did you mean "blue"?'],
  ['events --tail -5', 2, 'It must be a whole number, 0 or more'],
  ['events --tail many', 2, 'It must be a whole number, 0 or more'],
  ['get leases nosuch', 1, '`muster get leases` lists them'],
  ['explain node-1 --arch arm65', 2, 'Allowed choices are x86_64, amd64, aarch64, arm64'],
  ['explain profile.spec.imag', 1, 'did you mean "image"?'],
  ['status --timeout 5', 2, '--timeout 5: write a duration, such as 90s or 5m'],
  ['completion csh', 2, 'Allowed choices are bash, zsh, fish'],
  ['image build debian --suite bookworm', 2, 'such as `muster image build debian -- --suite …`'],
  ['kubeconfig blue --user ', 2, "option '--user <name>' argument '' is invalid. It must not be empty"],
  // documents
  ['apply -f @empty.yaml', 1, 'no document in it; nothing was applied'],
  ['apply -f @comment.yaml', 1, 'no document in it; nothing was applied'],
  ['apply -f @tab.yaml', 1, /tab\.yaml:2:1: tab/],
  ['apply -f @brace.yaml', 1, /brace\.yaml:3:\d+: /],
  ['apply -f @dedented.yaml', 1, /unknown key "macs"/],
  ['apply -f @mac.yaml', 1, 'did you mean "macs"?'],
  ['apply -f @macs.yaml', 1, 'must be a list of text'],
  ['apply -f @kind.yaml', 1, 'did you mean "Machine"?'],
  ['apply -f @version.yaml', 1, 'muster/v1'],
  ['apply -f @number.yaml', 1, 'put it in quotes'],
  ['apply -f @host-bits.yaml', 1, 'host bits zero; write it like "10.77.0.0/24"'],
  ['apply -f @twice.yaml', 1, /twice\.yaml:3:1: /],
  ['apply -f @repositories.yaml', 1, 'unknown key "repositories"'],
  ['apply -f @mac-twice.yaml', 1, /also claimed by Machine\/node-1/],
  ['apply -f @old-kubernetes.yaml', 1, /1\.34, 1\.35, 1\.36/],
  ['apply -f @cni.yaml', 1, 'write "cni: none" and add it as an add-on'],
  ['apply -f @addon.yaml', 1, '`muster addon pin NAME`'],
  ['apply -f @future.yaml --dry-run', 0, /^warning: .*did you mean "small"\?/],
  // machines and images
  ['delete machine node-1', 1, /all\.yaml:\d+/],
  ['delete machine cp1', 1, '`muster cluster remove-node blue cp1`'],
  ['delete image small', 1, 'is named by Profile/worker'],
  ['image rm small', 1, 'is named by Profile/worker'],
  ['image rm nosuch', 1, '`muster image ls` lists them'],
  ['image verify nosuch', 1, '`muster image ls` lists them'],
  ['machine add 52:54:00:zz:00:01', 2, 'write it like 52:54:00:aa:00:01'],
  ['machine add 52:54:00:aa:00:01 --name other', 1, /claimed by Machine\/node-1/],
  ['machine add 52:54:00:aa:00:51 --name node-1', 1, /change it with `muster apply` \(E_CONFLICT\)\n$/],
  ['machine add 52:54:00:aa:00:52', 0, /^warning: .*no Profile selects it; it is held when it boots/],
  ['machine add 52:54:00:aa:00:51 --name Node_9', 1, /lower-case letters/],
  ['machine add 52:54:00:aa:00:51 --address 10.99.0.5', 1, /10\.99\.0\.5/],
  [
    'machine accept 52:54:00:cc:00:01 --profile worker',
    1,
    '`muster machine add 52:54:00:cc:00:01 --profile PROFILE`',
  ],
  [
    'render soon',
    1,
    /Image "debian-31" does not exist; `muster image build` or `muster image add` makes one/,
  ],
  ['render node-1 --file nosuch', 1, 'there is no file "nosuch"; there are '],
  // clusters
  ['cluster plan blue', 1, 'write `muster cluster plan cp1`, or `muster artifacts plan blue`'],
  ['cluster plan nosuch', 1, '`muster get clusters` lists clusters'],
  ['cluster status nosuch', 1, '`muster get clusters` lists them'],
  ['cluster reset blue --confirm bleu', 2, 'add --confirm blue'],
  ['cluster found blue', 2, 'add --confirm blue'],
  ['cluster restore blue', 2, '--from MEMBER'],
  ['cluster add-node blue nosuch', 1, '`muster machine add` or `accept` makes one'],
  ['pki status blue', 1, 'E_NO_KEYS'],
  ['pki status nosuch', 1, 'there is no Cluster "nosuch"'],
  ['kubeconfig blue', 1, 'E_NO_KEYS'],
  [
    'cluster founding nosuch',
    1,
    'or it is incomplete; `muster get clusters` lists them, `muster cluster status nosuch`',
  ],
  ['kubeconfig nosuch', 1, /with spec\.kubernetes; `muster get clusters` lists them \(E_NOT_FOUND\)\n$/],
  ['get cluster nosuch --full', 1, '`muster get clusters` lists them'],
  ['explain node-1 --network nosuch', 1, '`muster get networks` lists all'],
  [
    'explain nosuch',
    1,
    /`muster get machines` lists those that have a document or were seen \(E_NOT_FOUND\)\n$/,
  ],
  ['addon show nosuch', 1, '`muster addon ls` lists'],
];

test.for(MISTAKES)('%s: exit code %i, with what to do', async ([line, code, said]) => {
  const ran = await muster(line);
  if (typeof said === 'string') expect(ran.err).toContain(said);
  else expect(ran.err).toMatch(said);
  expect(ran.code).toBe(code);
  if (ran.err.includes('E_USAGE')) expect(ran.err).toMatch(/See `muster( [a-z-]+)* --help`\.\n$/);
});

describe('suggestions', () => {
  const DESTRUCTIVE = /did you mean (reset|restore|remove-node|adopt|found|delete|rm|rearm|wipe|call-off)\b/;

  it.for([
    'delet',
    'rest',
    'cluster rest',
    'cluster rset',
    'cluster foud',
    'cluster adop',
    'cluster remove',
    'cluster restor',
    'machine rearn',
    'image rn',
    'image remove',
    'artifacts rmm',
    'cluster wipe',
    'cluster create',
    'cluster delete',
  ])('for "%s" name no destructive verb', async (line) => {
    const { code, err } = await muster(line);
    expect(code).toBe(2);
    expect(err).not.toMatch(DESTRUCTIVE);
  });

  it.for(['get machines --ful', 'delete machine x --al', 'delete machine x --forc', 'image rm x --unusd'])(
    'for "%s" lift no safeguard',
    async (line) => {
      expect((await muster(line)).err).not.toMatch(/did you mean --(all|force|unused|confirm|clear|without)/);
    },
  );
});

describe('words of other tools', () => {
  const tree = commandTree();
  /** The command that a path such as `muster cluster` names. */
  const commandAt = (path: string): Command | undefined =>
    path
      .split(' ')
      .slice(1)
      .reduce<Command | undefined>((at, name) => at?.commands.find((one) => one.name() === name), tree);
  const rows = Object.entries(FOREIGN_WORDS).flatMap(([path, words]) =>
    Object.entries(words).map(([word, said]) => ({ path, word, said })),
  );

  it.each(rows)('$path $word is no command itself', ({ path, word }) => {
    expect(commandAt(path)).toBeDefined();
    expect(commandAt(`${path} ${word}`)).toBeUndefined();
  });

  it('are never said to be missing where a command of that name exists', () => {
    const named = (command: Command): string[] =>
      command.commands.flatMap((child) => [child.name(), ...named(child)]);
    const names = new Set(named(tree));
    const denied = rows.filter(({ said }) => /Muster (has|does) no|\bnot?\b.*\byet\b/.test(said));
    expect(denied.length).toBeGreaterThan(3);
    expect(denied.filter(({ word }) => names.has(word))).toEqual([]);
  });
});
