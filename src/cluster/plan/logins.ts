/** The logins of a cluster's registries, with passwords from Secrets, for one machine. */
import type { PlanLine } from '../../agent/wire/plan.ts';
import type { GivenSecrets } from '../../pki/given-secrets.ts';
import type { ResolvedCluster } from '../model/resolved-cluster.ts';
import { hold } from './lines.ts';
import { accessByHost, type Login } from './registries.ts';

export interface Logins {
  readonly logins: readonly Login[];
  /** Lines that report which values the machine has. */
  readonly reports: readonly PlanLine[];
  /** What is missing; the machine logs in nowhere with it, and holds at the end of its plan. */
  readonly holds: readonly PlanLine[];
}

/** Line breaks and NUL cannot be part of a password; a file usually ends with one. */
function passwordIn(octets: Buffer): string | undefined {
  const text = octets.toString('utf8').replace(/\r?\n$/, '');
  return text === '' || /[\0-\x1f\x7f\ufffd]/.test(text) ? undefined : text;
}

/** @param given The Secrets; absent where nothing secret may be read, which gives no logins. */
export function loginsOf(
  { registries }: Pick<ResolvedCluster, 'registries'>,
  machine: string,
  given: Pick<GivenSecrets, 'value' | 'tag'> | undefined,
): Logins {
  const logins: Login[] = [];
  const reports: PlanLine[] = [];
  const holds: PlanLine[] = [];
  if (given === undefined) return { logins, reports, holds };
  for (const [host, { login }] of accessByHost({ registries })) {
    if (login === undefined) continue;
    const { secret, key } = login.password.valueFrom;
    const octets = given.value(secret, key);
    const tag = given.tag(machine, secret, key);
    const password = octets && passwordIn(octets);
    if (octets === undefined || tag === undefined)
      holds.push(
        hold(
          'secret-missing',
          `Secret ${secret} has no key ${key}, so this machine cannot log in to ${host}; \`muster secret put ${secret} ${key}\` writes it.`,
        ),
      );
    else if (password === undefined)
      holds.push(
        hold(
          'secret-no-password',
          `Secret ${secret}, key ${key}, is no password: it has several lines or control characters, so this machine cannot log in to ${host}.`,
        ),
      );
    else {
      logins.push({ host, username: login.username, password, tag });
      reports.push({ do: 'secret', id: `${secret}:${key}`, tag });
    }
  }
  return { logins, reports, holds };
}

/** The logins for a preview, with the name of the Secret in the place of each password. */
export const previewLogins = ({ registries }: Pick<ResolvedCluster, 'registries'>): Logins => ({
  logins: [...accessByHost({ registries })].flatMap(([host, { login }]) => {
    if (login === undefined) return [];
    const { secret, key } = login.password.valueFrom;
    const password = `[Secret ${secret}, ${key}]`;
    return [{ host, username: login.username, password, tag: password }];
  }),
  reports: [],
  holds: [],
});
