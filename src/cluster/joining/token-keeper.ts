/**
 * The token keeper: machines' join tokens as the Secrets by which a cluster's API knows them. One
 * is there from when the API answers, until a quarter of an hour after its machine asked for it
 * last; of a machine that has joined, or that is none of the cluster's any more, it is taken away.
 */
import { duration } from '../../base/duration.ts';
import { firstReady, type Kube, KubeRefusal } from '../kube.ts';
import { joinsByToken, MACHINE_TOKENS } from '../spec/by-token.ts';
import { addressOf, type ResolvedCluster, withRole } from '../spec/resolved-cluster.ts';
import { type Look, type Rounds, type RoundsDeps, startRounds } from './rounds.ts';
import type { JoinToken, JoinTokens } from './tokens.ts';

export interface TokenKeeperDeps extends RoundsDeps {
  readonly kubes: (cluster: string, address: string) => Kube;
  readonly tokens: JoinTokens;
}

const EVERY = duration('12s');
/** A token that nobody asks for any more is worth nothing after so long. */
const LIFETIME = duration('15m');
/** Its end is written anew when it has moved by so much. */
const STEP = duration('5m');

/**
 * A new cluster's API answers some time before a control plane has written what Muster may do
 * there; later a refusal is news.
 */
const SAID_AFTER = 10;

/** What is kept of a cluster between two rounds. */
interface Kept {
  /** The end that was written last, ms since 1970, by id. */
  readonly until: Map<string, number>;
  /** How often the API refused in turn, by id. */
  readonly refused: Map<string, number>;
}

/** Watches from now on, until it is closed. */
export const startTokenKeeper = (deps: TokenKeeperDeps): Rounds =>
  startRounds<Kept>(
    deps,
    { every: EVERY, what: 'join tokens', begin: () => ({ until: new Map(), refused: new Map() }) },
    (look) => oneRound(deps, look),
  );

/** Rejects when no control plane answers. */
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
        await takenAway(deps, kube, token);
        state.until.delete(token.id);
      } else {
        await written(deps, kube, token, until);
        state.until.set(token.id, until);
      }
      state.refused.delete(token.id);
    } catch (error) {
      if (!(error instanceof KubeRefusal)) throw error;
      const times = (state.refused.get(token.id) ?? 0) + 1;
      state.refused.set(token.id, times);
      if (times === SAID_AFTER)
        deps.log.warn(
          { err: error, cluster: resolved.name, machine: token.machine },
          'the API refuses a join token',
        );
    }
  }
}

interface Due {
  readonly token: JoinToken;
  /** When it ends, ms since 1970; absent: it is taken away. */
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
  // The API forgets it by itself (tokencleaner).
  if (ago === undefined || ago >= LIFETIME) return [];
  const end = clock.now() - ago + LIFETIME;
  return end - (until.get(token.id) ?? 0) >= STEP ? [{ token, until: end }] : [];
}

const SECRETS = '/api/v1/namespaces/kube-system/secrets';
const base64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');

async function written(
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
    // JSON is YAML.
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

async function takenAway({ tokens }: TokenKeeperDeps, kube: Kube, token: JoinToken): Promise<void> {
  try {
    await kube(`${SECRETS}/bootstrap-token-${token.id}`, { method: 'DELETE' });
  } catch (error) {
    if (!(error instanceof KubeRefusal) || error.status !== 404) throw error;
  }
  await tokens.forget(token);
}
