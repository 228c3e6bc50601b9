/** What etcd checks between its flags, and in texts that have a form of their own. */
import { didYouMean } from '../../base/suggest.ts';
import { type FlagRule, isTrue, rule, whole } from './flag-rule.ts';
import { goMilliseconds, goTruth, listed, suitesFault } from './flag-values.ts';
import { ETCD_FLAGS } from './flags.ts';
import { rowsOf } from './tables.ts';

const etcd = rule('etcd');

/**
 * The feature gates of etcd 3.6, each with the flag of 3.5 that it was; 3.6 takes one of the two.
 */
const GATES = rowsOf('gate-etcd').map(({ name, words: [former] }) => ({ name, former }));
const GATE_NAMES = GATES.map(({ name }) => name);

const gatesFault: FlagRule['fault'] = (value) => {
  for (const part of value.split(',').filter((one) => one.trim() !== '')) {
    const [, gate = '', on] = /^([^=]*)(?:=(.*))?$/s.exec(part) ?? [];
    const name = gate.trim();
    if (on === undefined || goTruth(on.trim()) === undefined)
      return `"${part}" is not a setting of a gate; write NAME=true or NAME=false`;
    if (!GATE_NAMES.includes(name)) return `etcd has no feature gate ${name}${didYouMean(name, GATE_NAMES)}`;
  }
  return isOn(value, 'LeaseCheckpointPersist') && !isOn(value, 'LeaseCheckpoint')
    ? 'LeaseCheckpointPersist needs LeaseCheckpoint=true'
    : undefined;
};

/** Whether a gate that is off by default is set to true in the flag. */
const isOn = (gates: string, name: string): boolean =>
  gates.split(',').some((part) => {
    const [gate = '', on = ''] = part.split('=').map((word) => word.trim());
    return [name, 'AllAlpha'].includes(gate) && goTruth(on) === true;
  });

/** The signatures of JSON Web Tokens that etcd knows. */
const SIGNATURES = /^(RS|PS|HS|ES)(256|384|512)$|^EdDSA$/;

/** etcd ends with another kind of token, and without what a kind needs (server/auth/store.go). */
function tokenFault(value: string): string | undefined {
  const [kind = '', ...parts] = value.split(',');
  if (kind === 'simple' && parts.includes('')) return 'an option is missing at one of the commas';
  if (kind !== 'jwt')
    return ['', 'simple'].includes(kind) ? undefined : `etcd has no token "${kind}"; it has simple and jwt`;
  const options = new Map(
    parts.map((part): [string, string] => [part.split('=')[0]!, part.replace(/^[^=]*=?/, '')]),
  );
  const method = options.get('sign-method') ?? '';
  const keys = method.startsWith('HS') ? ['priv-key'] : ['pub-key', 'priv-key'];
  if (!SIGNATURES.test(method) || !keys.some((key) => options.has(key)))
    return 'jwt needs a sign-method and a key, like "jwt,pub-key=/etc/kubernetes/pki/etcd/jwt.pub,priv-key=/etc/kubernetes/pki/etcd/jwt.key,sign-method=ES256"';
  const ttl = options.get('ttl');
  return ttl === undefined || goMilliseconds(ttl) !== undefined
    ? undefined
    : `"${ttl}" is not a time like "5m"`;
}

/** The flags of 3.5 that have lost their prefix in 3.6, where one of the two may be set. */
const RENAMED: readonly (readonly [before: string, now: string])[] = [...ETCD_FLAGS.keys()]
  .filter((name) => name.startsWith('experimental-'))
  .map((name): [string, string] => [name, name.replace('experimental-', '')])
  .filter(([before, now]) => ETCD_FLAGS.get(before)?.has('3.6') && ETCD_FLAGS.get(now)?.has('3.6'));

const FORMER: readonly FlagRule[] = [
  ...GATES.flatMap(({ name: gate, former }) =>
    former === undefined
      ? []
      : etcd(former, (value, other, resolved) =>
          resolved.etcd.minor === '3.6' && other('feature-gates').includes(gate)
            ? `etcd 3.6 takes this or feature-gates, which has ${gate}; write it there: "${gate}=${goTruth(value) ?? true}"`
            : undefined,
        ),
  ),
  ...RENAMED.map(([before, now]) =>
    etcd(before, (_, other, resolved) =>
      resolved.etcd.minor === '3.6' && other(now) !== ''
        ? `etcd 3.6 takes this or ${now}; set that alone`
        : undefined,
    ),
  ),
];

export const ETCD: readonly FlagRule[] = [
  etcd('election-timeout', (value, flag) => {
    const beat = whole(flag('heartbeat-interval'), 100);
    return Number(value) >= 5 * beat
      ? undefined
      : `it is less than 5 times heartbeat-interval, which is ${beat}`;
  }),
  etcd('heartbeat-interval', (value, flag) =>
    flag('election-timeout') !== '' || 5 * Number(value) <= 1000
      ? undefined
      : '5 times as much is more than election-timeout, which is 1000 by default',
  ),
  etcd('auto-compaction-retention', (value, flag) => {
    const byRevision = flag('auto-compaction-mode') === 'revision';
    if (/^[0-9]*$/.test(value) || (!byRevision && (goMilliseconds(value) ?? -1) >= 0)) return undefined;
    return byRevision
      ? `"${value}" is not a number of revisions`
      : `"${value}" is not a duration like "8h", nor a number of hours`;
  }),
  etcd('tls-min-version', (value, flag) =>
    value === 'TLS1.3' && flag('tls-max-version') === 'TLS1.2'
      ? 'it is newer than tls-max-version'
      : undefined,
  ),
  etcd('cipher-suites', (value, flag) =>
    value !== '' && flag('tls-min-version') === 'TLS1.3'
      ? 'cipher suites cannot be chosen with TLS1.3'
      : suitesFault(listed(value)),
  ),
  etcd('log-level', (value) =>
    /^(debug|info|warn|warning|error|dpanic|panic|fatal|)$/i.test(value)
      ? undefined
      : `etcd has no "${value}" here; it takes debug, info, warn, error, panic, fatal`,
  ),
  etcd('log-outputs', (value) => {
    const outputs = value.split(',');
    if (outputs.includes('')) return 'an output is missing; write stderr, stdout or the path of a file';
    return outputs.includes('default') && outputs.length > 1
      ? '"default" is taken only by itself'
      : undefined;
  }),
  etcd('enable-log-rotation', (value, flag) =>
    isTrue(value) && !/^[^,]*\/[^,]*$/.test(flag('log-outputs'))
      ? 'it needs the path of one file in log-outputs'
      : undefined,
  ),
  etcd('cors', (value) => (value === '' ? 'it is empty; write "*", or leave it out' : undefined)),
  etcd('distributed-tracing-sampling-rate', (value, flag) =>
    isTrue(flag('enable-distributed-tracing')) && (Number(value) < 0 || Number(value) > 1_000_000)
      ? `${value} is not between 0 and 1000000`
      : undefined,
  ),
  etcd('experimental-enable-lease-checkpoint-persist', (value, flag) =>
    isTrue(value) && !isTrue(flag('experimental-enable-lease-checkpoint'))
      ? 'it needs experimental-enable-lease-checkpoint: "true"'
      : undefined,
  ),
  etcd('feature-gates', gatesFault),
  etcd('auth-token', tokenFault),
  ...FORMER,
];
