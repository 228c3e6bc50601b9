/** Generates docs/founding.md, with the tables of rules and holds from src/cluster/etcd. */
import { RULE_TEXTS } from '../src/cluster/etcd/decide.ts';
import { HOLDS } from '../src/cluster/etcd/holds.ts';
import { code, generatedFrom, table } from './markdown.ts';

const INTRODUCTION = `# How etcd is founded, and why a member is held

The boot host founds the etcd of a cluster once ([decision 24](decisions/0024-founded-once.md)). \`muster cluster
founding NAME\` shows the state of the founding and the last decision for each member; \`-o json\` shows the record and
etcd's own list of members.

1. Each member asks and names the filesystem of its data disk. When all members have asked and none has data, the
   founding opens.
2. Each member is granted \`state=new\`, for that filesystem only. Two of three are a quorum; the first of them that
   reads from etcd ends the founding.
3. A member that comes later, or has lost its data, is removed from etcd and added again: \`remove\`, \`add\` (as a
   learner), \`start\`, \`promote\`. Members are replaced one at a time, and only while the others have a quorum. If the
   boot host or the machine is killed, the replacement continues from the step that it had reached.

Each step is an event \`cluster.founding\`; its codes are in [events.md](events.md#steps-of-founding).

## Found etcd without an absent member

**When:** a machine is not there and will not be soon, and no founding has opened yet.

\`\`\`console
$ muster cluster found blue --confirm blue
\`\`\`

It opens the founding with the members that have asked. **Do this only if the absent one has no data of this cluster.**

**What may be lost:** whatever data the absent member has. **Undo:** [reset the cluster](operating.md#reset-a-cluster).

## Look into etcd

\`eval "$(muster cluster etcd-client NAME DIRECTORY)"\` writes a client certificate that is good for 12 hours, and gives
etcdctl its settings.
`;

const HOLDS_HEAD = `
## Holds

The text of a hold says what keeps etcd on this machine from starting. The agent reports it, and \`muster cluster
founding NAME\` shows it.

`;

const HOLDS_END = `
\`etcd-fenced\` is not a fault: the machine has stopped its etcd and waits to be added again.

## Rules

The first rule that applies decides what a member may do:

`;

const END = `
Adding and removing machines, a reset and a restore are in [operating.md](operating.md).
`;

export const foundingPage = (): string =>
  generatedFrom('src/cluster/etcd/holds.ts and src/cluster/etcd/decide.ts') +
  INTRODUCTION +
  HOLDS_HEAD +
  table(
    ['code', 'what it means', 'what ends it'],
    Object.entries(HOLDS).map(([name, { text, ends }]) => [code(name), text, ends]),
  ) +
  HOLDS_END +
  RULE_TEXTS.map((rule, n) => `${n + 1}. ${rule}\n`).join('') +
  END;
