/**
 * The token keeper: keeps machines' join tokens as Secrets in a cluster's API. A Secret is made as
 * soon as the API answers, and exists until a quarter of an hour after its machine last asked for
 * the token. It is deleted earlier when the machine has joined or no longer belongs to the cluster.
 */
import { duration } from '../../base/duration.ts';
import { firstReady, ifThere, type Kube, KubeRefusal } from '../kube.ts';
import { addressOf, type ResolvedCluster, withRole } from '../model/resolved-cluster.ts';
import { joinsByToken, MACHINE_TOKENS } from '../resolve/by-token.ts';
import { type Look, type Rounds, type RoundsDeps, startRounds } from './rounds.ts';
import type { JoinToken, JoinTokens } from './tokens.ts';

interface TokenKeeperDeps extends RoundsDeps {
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly tokens: JoinTokens;
}

const EVERY = duration('12s');
/** A token expires this long after its machine last asked for it. */
const LIFETIME = duration('15m');
/** The expiry in the API is updated when it has changed by this much. */
const STEP = duration('5m');

/**
 * A warning is logged after this many refusals. The first refusals are normal: the API of a new
 * cluster answers before a control plane has written Muster's permissions.
 */
const WARN_AFTER = 10;

/** What is kept of a cluster between two rounds. */
interface Kept {
  /** Token id → the expiry that was last written, ms since 1970. */
  readonly until: Map<string, number>;
  /** Token id → how many times in a row the API refused it. */
  readonly refused: Map<string, number>;
}

/** Keeps the Secrets from now on, until it is closed. */
export const startTokenKeeper = (deps: TokenKeeperDeps): Rounds =>
  startRounds<Kept>(
    deps,
    { every: EVERY, what: 'join tokens', begin: () => ({ until: new Map(), refused: new Map() }) },
    (look) => oneRound(deps, look),
  );

/** Writes and deletes the Secrets of a cluster. Rejects when no control plane answers. */
async function oneRound(deps: TokenKeeperDeps, { resolved, state, signal }: Look<Kept>): Promise<void> {
  const due = deps.tokens.list(resolved.name).flatMap((token) => dueOf(deps, resolved, state, token));
  if (due.length === 0) return;
  const kube = await firstReady(
    withRole(resolved, 'control-plane').map((one) => deps.kubes(resolved.name, addressOf(one))),
  );
  for (const { token, until } of due) {
    if (signal.aborted) return;
    try {
      if (until === undefined) {
        await deleteSecret(deps, kube, token);
        state.until.delete(token.id);
      } else {
        await writeSecret(deps, kube, token, until);
        state.until.set(token.id, until);
      }
      state.refused.delete(token.id);
    } catch (error) {
      if (!(error instanceof KubeRefusal)) throw error;
      const times = (state.refused.get(token.id) ?? 0) + 1;
      state.refused.set(token.id, times);
      if (times === WARN_AFTER)
        deps.log.warn(
          { err: error, cluster: resolved.name, machine: token.machine },
          'the API refuses a join token',
        );
    }
  }
}

interface Due {
  readonly token: JoinToken;
  /** When the token expires, ms since 1970; absent when its Secret is to be deleted. */
  readonly until?: number;
}

function dueOf(
  { tokens, clock }: TokenKeeperDeps,
  resolved: ResolvedCluster,
  { until }: Kept,
  token: JoinToken,
): readonly Due[] {
  const machine = resolved.machines.find(({ name }) => name === token.machine);
  if (token.used || machine === undefined || !joinsByToken(resolved, machine)) return [{ token }];
  const ago = tokens.askedAgo(token);
  // kube-controller-manager's tokencleaner deletes an expired Secret.
  if (ago === undefined || ago >= LIFETIME || clock.doubt() !== undefined) return [];
  const end = clock.now() - ago + LIFETIME;
  // One that a wrong clock has set into the future is set again, too.
  return Math.abs(end - (until.get(token.id) ?? 0)) >= STEP ? [{ token, until: end }] : [];
}

const SECRETS = '/api/v1/namespaces/kube-system/secrets';
const base64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');

async function writeSecret(
  { tokens }: TokenKeeperDeps,
  kube: Kube,
  token: JoinToken,
  until: number,
): Promise<void> {
  const name = `bootstrap-token-${token.id}`;
  const [id = '', secret = ''] = tokens.text(token).reveal().split('.');
  const says = {
    'token-id': id,
    'token-secret': secret,
    description: `${token.machine}, by Muster`,
    expiration: new Date(until).toISOString().replace(/\.\d+Z$/, 'Z'),
    'usage-bootstrap-authentication': 'true',
    'auth-extra-groups': MACHINE_TOKENS,
  };
  await kube(`${SECRETS}/${name}?fieldManager=muster&force=true`, {
    method: 'PATCH',
    // Server-side apply takes YAML; JSON is valid YAML.
    contentType: 'application/apply-patch+yaml',
    body: {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace: 'kube-system' },
      type: 'bootstrap.kubernetes.io/token',
      data: Object.fromEntries(Object.entries(says).map(([key, value]) => [key, base64(value)])),
    },
  });
}

async function deleteSecret({ tokens }: TokenKeeperDeps, kube: Kube, token: JoinToken): Promise<void> {
  await kube(`${SECRETS}/bootstrap-token-${token.id}`, { method: 'DELETE' }).catch(ifThere);
  await tokens.forget(token);
}
