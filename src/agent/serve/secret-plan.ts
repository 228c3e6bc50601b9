/**
 * The lines of a plan that bring values of Secrets to a machine: files and password hashes of its
 * documents. They come before the lines of its cluster, which may need them.
 */
import { MusterError } from '../../base/errors.ts';
import { fromSecrets } from '../../ignition/secrets.ts';
import type { SecretUsers } from '../../machines/secret-users.ts';
import type { GivenSecrets } from '../../pki/given-secrets.ts';
import { passwordHashIn } from '../../pki/password-hash.ts';
import type { NodeConfig } from '../../resources/nodeconfig.ts';
import type { Plan, PlanLine } from '../wire/plan.ts';
import type { AgentPlanner } from '../wire/protocol.ts';

interface SecretPlanDeps {
  readonly given: Pick<GivenSecrets, 'value' | 'tag'>;
  readonly users: Pick<SecretUsers, 'mayUse'>;
  /**
   * The machine's merged configuration with its templates filled in.
   *
   * @throws {MusterError} when it has none, or it does not render
   */
  readonly configuration: (machine: string) => NodeConfig;
}

/** Seconds until the next poll of a machine that only waits for changed Secrets. */
const SETTLED = 30;

/** The planner with the lines of Secrets added to every plan. */
export function withSecrets(planner: AgentPlanner, deps: SecretPlanDeps): AgentPlanner {
  return async (identity, facts) => {
    const plan = await planner(identity, facts);
    if (!deps.users.mayUse(identity.machine)) return plan;
    const { lines, holds } = secretLines(deps, identity.machine);
    if (lines.length === 0 && holds.length === 0) return plan;
    const pollSeconds = Math.min(plan.pollSeconds, SETTLED);
    return { lines: [...lines, ...plan.lines, ...holds], pollSeconds } satisfies Plan;
  };
}

/**
 * The lines for one machine. What cannot be brought is held at the end of the plan, so that it
 * stops nothing else. No text of a hold has a value.
 */
function secretLines(
  { given, configuration }: SecretPlanDeps,
  machine: string,
): { readonly lines: readonly PlanLine[]; readonly holds: readonly PlanLine[] } {
  const lines: PlanLine[] = [];
  const holds: PlanLine[] = [];
  const hold = (code: string, text: string): void => void holds.push({ do: 'hold', code, text });
  const bring = (
    { secret, key }: { readonly secret: string; readonly key: string },
    lineOf: (octets: Buffer) => PlanLine | undefined,
  ): void => {
    const octets = given.value(secret, key);
    const tag = given.tag(machine, secret, key);
    if (octets === undefined || tag === undefined) {
      const how = `\`muster secret put ${secret} ${key}\` writes it`;
      hold('secret-missing', `Secret ${secret} has no key ${key}; ${how}.`);
      return;
    }
    const line = lineOf(octets);
    if (line !== undefined) lines.push(line, { do: 'secret', id: `${secret}:${key}`, tag });
  };
  let config: NodeConfig;
  try {
    config = configuration(machine);
  } catch (error) {
    if (!(error instanceof MusterError)) throw error;
    hold('secret-config', `Its configuration cannot be read for its Secrets: ${error.message}`);
    return { lines, holds };
  }
  const { users, files } = fromSecrets(config);
  for (const { name: user, from } of users)
    bring(from, (octets) => {
      const hash = passwordHashIn(octets);
      if (hash !== undefined)
        return { do: 'put-password', user, content: { text: `${hash}\n`, secret: true } };
      hold(
        'secret-no-hash',
        `Secret ${from.secret}, key ${from.key}, is no password hash, so ${user} gets no password.`,
      );
      return undefined;
    });
  for (const { path, mode = '0644', owner = 'root', group = 'root', from } of files)
    bring(from, (octets) => ({
      do: 'put-owned',
      mode: Number.parseInt(mode, 8),
      path,
      owner,
      group,
      content: { octets, secret: true },
    }));
  return { lines, holds };
}
