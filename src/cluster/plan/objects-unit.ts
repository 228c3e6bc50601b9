/**
 * The unit that puts the in-cluster objects in place, on every control plane: it waits for the API
 * on its own machine, and three at once do no harm, since applying is idempotent. When it is done
 * it removes its credential, which says to Muster that it is done.
 */
import { createHash } from 'node:crypto';
import { AGENT_PATHS, type PlanLine } from '../../agent/plan.ts';
import { AUTHORITIES } from '../../pki/hierarchy.ts';
import type { RenderedAddon } from '../objects/addons/addon.ts';
import { type Bundle, manifestText } from '../objects/bundle.ts';
import { API_PORT } from '../spec/ports.ts';
import type { ClusterMachine } from '../spec/resolved-cluster.ts';
import { put, sections } from './lines.ts';

const DIRECTORY = '/etc/muster/objects';
const ADDONS = `${DIRECTORY}/addons`;
const CREDENTIAL = '/run/muster/applier.conf';
/** The agent says its first line with every poll. */
const COMPLAINT = `${AGENT_PATHS.run}/objects`;
const UNIT = '/etc/systemd/system/muster-objects.service';

const LABELS = [
  'node-role.kubernetes.io/control-plane=',
  // The control planes are behind the endpoint, not behind Services of type LoadBalancer.
  'node.kubernetes.io/exclude-from-external-load-balancers=',
];

interface File {
  readonly path: string;
  readonly text: string;
}

/**
 * An add-on's files in the order in which they are applied: what defines kinds stands before
 * objects of these kinds.
 */
const filesOf = ({ name, definitions, objects }: RenderedAddon): readonly File[] =>
  [
    { path: `${ADDONS}/${name}.definitions.yaml`, text: definitions },
    { path: `${ADDONS}/${name}.yaml`, text: objects },
  ].filter(({ text }) => text !== '');

/**
 * What fails now may not later: a kind that was defined just now, a webhook whose pods do not
 * answer yet.
 */
const addonsScript = (files: readonly File[]): string => `
# Add-ons, in the order of the Cluster. One that cannot be applied yet is tried again, less and less often.
for file in ${files.map(({ path }) => path).join(' ')}; do
  pause=1
  until attempt apply "$file"; do
    sleep "$pause"
    [ "$pause" -ge 30 ] || pause=$((pause * 2))
  done
  rm -f ${COMPLAINT}
done
`;

/**
 * A label that a kubelet may not give its own node; the taint it gives itself when it registers.
 */
const script = ({ name }: ClusterMachine, addons: readonly File[]): string => `#!/bin/sh
# Puts the objects of the cluster in place; started anew by systemd until all of it is done.
set -eu
umask 077
export KUBECONFIG=${CREDENTIAL}
# For the agent, which says it with every poll; it stays until the same is done.
complain() {
  echo "$1" >&2
  echo "$1" | grep -v '^Warning:' | tr -s '\\0-\\37\\177' ' ' | head -c 400 >${COMPLAINT}.new
  mv ${COMPLAINT}.new ${COMPLAINT}
  return 1
}
# Runs the rest; what it says when it fails is complained of.
attempt() {
  if said=$({ "$@" >&3; } 2>&1); then [ -z "$said" ] || echo "$said" >&2; else complain "$said"; fi
} 3>&1
apply() { kubectl apply --server-side --force-conflicts --field-manager=muster -f "$1"; }
# kubectl alone is much for a machine that starts an apiserver: it asks when curl was told so, or not told because it has no name.
answers() {
  case $(curl -q -s -o /dev/null -w '%{http_code}' --noproxy '*' --max-time 5 --cacert ${AUTHORITIES.ca.bundle.path} https://127.0.0.1:${API_PORT}/readyz) in
    200 | 401) attempt kubectl get --raw /readyz >/dev/null ;;
    *) return 1 ;;
  esac
}
until answers; do sleep 2; done
kubectl create -f ${DIRECTORY}/created.yaml >/dev/null 2>&1 || true
attempt kubectl get -o name -f ${DIRECTORY}/created.yaml
attempt apply ${DIRECTORY}/applied.yaml
# What somebody else has set since, kubectl calls a conflict: it is theirs.
if ! said=$(kubectl apply --server-side --field-manager=muster-proposal -f ${DIRECTORY}/proposed.yaml 2>&1); then
  case $said in
  *conflict*) ;;
  *) complain "$said" ;;
  esac
fi
attempt kubectl label --overwrite node ${name} ${LABELS.join(' ')}
rm -f ${COMPLAINT}
${addons.length === 0 ? '' : addonsScript(addons).slice(1)}rm -f ${AGENT_PATHS.keys}/applier.key ${CREDENTIAL}
`;

const unit = sections(
  [
    'Unit',
    [
      'Description=Objects of the cluster, put in place by Muster',
      'After=kubelet.service',
      'StartLimitIntervalSec=0',
      // After a reboot they are there already; the plan starts it when they changed.
      `ConditionPathExists=${CREDENTIAL}`,
    ],
  ],
  [
    'Service',
    [
      // Not oneshot: whoever starts it would wait for the API.
      'Type=exec',
      'RemainAfterExit=yes',
      `ExecStart=/bin/sh ${DIRECTORY}/apply.sh`,
      'Restart=on-failure',
      'RestartSec=2',
    ],
  ],
  ['Install', ['WantedBy=multi-user.target']],
);

/** What a control plane applies, and its digest: another one means that it is applied again. */
export interface ObjectsPart {
  readonly files: readonly PlanLine[];
  readonly digest: string;
  readonly run: PlanLine;
}

/**
 * `founding`: the id of etcd's founding. Of another one nothing was applied yet: a cluster that was
 * reset, or restored from older data.
 */
export function objectsPart(
  machine: ClusterMachine,
  bundle: Bundle,
  addons: readonly RenderedAddon[] = [],
  founding = '',
): ObjectsPart {
  const ofAddons = addons.flatMap(filesOf);
  const texts = [
    manifestText(bundle.created),
    manifestText(bundle.applied),
    manifestText(bundle.proposed),
    script(machine, ofAddons),
    unit,
  ] as const;
  const hash = createHash('sha256');
  for (const text of [...texts, ...ofAddons.map(({ text }) => text), founding])
    hash.update(`${text.length}\n${text}`);
  const digest = hash.digest('hex');
  return {
    digest,
    files: [
      put(`${DIRECTORY}/created.yaml`, texts[0]),
      put(`${DIRECTORY}/applied.yaml`, texts[1]),
      // What people write into an add-on's objects is for the root user's eyes.
      ...ofAddons.map(({ path, text }) => put(path, text, 0o600)),
      put(`${DIRECTORY}/proposed.yaml`, texts[2]),
      put(`${DIRECTORY}/apply.sh`, texts[3]),
      put(UNIT, texts[4]),
    ],
    run: { do: 'run', unit: 'muster-objects.service', digest },
  };
}
