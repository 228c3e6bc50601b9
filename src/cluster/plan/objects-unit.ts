/**
 * The unit that applies the in-cluster objects. It runs on every control plane and waits for the
 * API on its own machine; several at once do no harm, because applying is idempotent. When all
 * objects are applied the unit removes its credential, and Muster sees that the credential is gone.
 */
import { createHash } from 'node:crypto';
import { AGENT_PATHS, type PlanLine } from '../../agent/wire/plan.ts';
import { AUTHORITIES } from '../../pki/hierarchy.ts';
import { API_PORT } from '../model/ports.ts';
import { type ClusterMachine, NO_BALANCERS } from '../model/resolved-cluster.ts';
import type { RenderedAddon } from '../objects/addons/addon.ts';
import { type Bundle, manifestText } from '../objects/bundle.ts';
import { put, sections } from './lines.ts';

const DIRECTORY = '/etc/muster/objects';
const ADDONS = `${DIRECTORY}/addons`;
const CREDENTIAL = '/run/muster/applier.conf';
/** The file with the last error. The agent reports its first line with every poll. */
const COMPLAINT = `${AGENT_PATHS.run}/objects`;
const UNIT = '/etc/systemd/system/muster-objects.service';

const labelsOf = ({ schedulable }: ClusterMachine): readonly string[] => [
  'node-role.kubernetes.io/control-plane=',
  ...(schedulable ? [] : [`${NO_BALANCERS}=`]),
];

interface File {
  readonly path: string;
  readonly text: string;
}

/**
 * An add-on's files in the order in which they are applied: CustomResourceDefinitions come first.
 */
const filesOf = ({ name, definitions, objects }: RenderedAddon): readonly File[] =>
  [
    { path: `${ADDONS}/${name}.definitions.yaml`, text: definitions },
    { path: `${ADDONS}/${name}.yaml`, text: objects },
  ].filter(({ text }) => text !== '');

/**
 * Retries each add-on: it may fail because a kind was defined a moment ago, or because the pods of
 * a webhook do not answer yet.
 */
const addonsScript = (files: readonly File[]): string => `
# Add-ons, in the order of the Cluster. One that cannot be applied yet is retried, after longer
# and longer pauses.
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
 * The script of the unit. It also sets the labels that a kubelet may not give its own node; the
 * taint of control planes comes with kubelet's registration.
 */
const script = (machine: ClusterMachine, addons: readonly File[]): string => `#!/bin/sh
# Applies the in-cluster objects. systemd runs it again until everything is applied.
set -eu
umask 077
export KUBECONFIG=${CREDENTIAL}

# complain TEXT: leaves the text for the agent, which reports it, and fails.
complain() {
  echo "$1" >&2
  echo "$1" |
    grep -v '^Warning:' |
    tr -s '\\0-\\37\\177' ' ' |
    head -c 400 >${COMPLAINT}.new
  mv ${COMPLAINT}.new ${COMPLAINT}
  return 1
}

# attempt COMMAND...: runs the command; if it fails, complains with what it printed.
attempt() {
  if printed=$({ "$@" >&3; } 2>&1); then
    [ -z "$printed" ] || echo "$printed" >&2
  else
    complain "$printed"
  fi
} 3>&1

apply() {
  kubectl apply --server-side --force-conflicts --field-manager=muster -f "$1"
}

# Whether the API server of this machine is ready. kubectl needs much memory and processor on a
# machine that is just starting its API server, so curl asks first: 401 means that it answers.
answers() {
  status=$(
    curl -q -s -o /dev/null -w '%{http_code}' --noproxy '*' --max-time 5 \\
      --cacert ${AUTHORITIES.ca.bundle.path} https://127.0.0.1:${API_PORT}/readyz
  )
  case $status in
    200 | 401) attempt kubectl get --raw /readyz >/dev/null ;;
    *) return 1 ;;
  esac
}

until answers; do
  sleep 2
done
# Control planes that apply at once race for the address of CoreDNS's Service: the one that comes
# second is refused, and finds the Service when it tries again.
apply_all() {
  for pause in 1 2 3 0; do
    if printed=$({ apply ${DIRECTORY}/applied.yaml >&3; } 2>&1); then
      [ -z "$printed" ] || echo "$printed" >&2
      return 0
    fi
    case $printed in
      *'provided IP is already allocated'*) ;;
      *) break ;;
    esac
    sleep "$pause"
  done
  complain "$printed"
} 3>&1

# Objects that belong to operators: created when they are missing, never changed.
kubectl create -f ${DIRECTORY}/created.yaml >/dev/null 2>&1 || true
attempt kubectl get -o name -f ${DIRECTORY}/created.yaml
apply_all
# A conflict means that somebody else has set the field since: it is theirs.
if ! printed=$(
  kubectl apply --server-side --field-manager=muster-proposal -f ${DIRECTORY}/proposed.yaml 2>&1
); then
  case $printed in
    *conflict*) ;;
    *) complain "$printed" ;;
  esac
fi
attempt kubectl label --overwrite node ${machine.name} \\
  ${labelsOf(machine).join(' \\\n  ')}
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
      // The unit does not run at every boot: the plan starts it when the objects have changed.
      `ConditionPathExists=${CREDENTIAL}`,
    ],
  ],
  [
    'Service',
    [
      // The type is not oneshot, which would make the agent wait for the API.
      'Type=exec',
      'RemainAfterExit=yes',
      `ExecStart=/bin/sh ${DIRECTORY}/apply.sh`,
      'Restart=on-failure',
      'RestartSec=2',
    ],
  ],
  ['Install', ['WantedBy=multi-user.target']],
);

/**
 * The bundle that a control plane applies. It applies the bundle again whenever the digest changes.
 */
export interface ObjectsPart {
  readonly files: readonly PlanLine[];
  readonly digest: string;
  readonly run: PlanLine;
}

/**
 * The files and the unit with which a control plane applies the in-cluster objects.
 *
 * @param founding The id of etcd's founding. It is part of the digest, because a cluster that was
 *   reset or restored from older data has not applied anything yet.
 * @example
 * const part = objectsPart(machine, bundleOf(resolved, caBundle), [], record.id);
 * const lines = [...part.files, part.run]; // a change of `part.digest` runs the unit again
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
      // Only root may read what operators write into an add-on's objects.
      ...ofAddons.map(({ path, text }) => put(path, text, 0o600)),
      put(`${DIRECTORY}/proposed.yaml`, texts[2]),
      put(`${DIRECTORY}/apply.sh`, texts[3]),
      put(UNIT, texts[4]),
    ],
    run: { do: 'run', unit: 'muster-objects.service', digest },
  };
}
