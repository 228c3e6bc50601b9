/**
 * The site's identity provider (OpenID Connect) as a file of the boot host describes it, and which
 * roles the claims of its users give. It is a file and not a document, because operators who may
 * apply documents must not be able to change who they are. Pure.
 */
import { z } from 'zod';
import { type Fault, MusterError } from '../../base/errors.ts';
import { readYaml } from '../../resources/yaml.ts';
import { type Grant, grantOf, isRole, type Role } from '../access.ts';
import { limits } from '../contract/accounts.ts';

const HTTPS = /^https:\/\/[^\s#?]+$/;

const settings = z.strictObject({
  issuer: z.string().regex(HTTPS, 'write an address that begins with https://'),
  name: z.string().min(1).max(60).default('the identity provider'),
  clientId: z.string().min(1).max(256),
  clientSecretFile: z.string().min(1).optional(),
  authorityFile: z.string().min(1).optional(),
  page: z
    .string()
    .regex(/^https:\/\/[^\s/#?]+$/, 'write https://HOST or https://HOST:PORT')
    .optional(),
  scopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/))
    .max(20)
    .default(['openid', 'profile']),
  operator: z.string().min(1).max(100).default('preferred_username'),
  roles: z
    .array(
      z.strictObject({
        role: z.string().refine(isRole, 'the roles are viewer, operator, admin, auditor'),
        ...limits,
        claims: z
          .record(z.string().min(1), z.string().min(1))
          .refine((claims) => Object.keys(claims).length > 0, 'name at least one claim'),
      }),
    )
    .min(1)
    .max(200),
});

/** A role for everybody whose ID token or user information has all of these claims. */
export interface RoleRule {
  readonly grant: Grant;
  readonly claims: Readonly<Record<string, string>>;
}

export interface ProviderSettings {
  readonly issuer: string;
  /** How the page calls it. */
  readonly name: string;
  readonly clientId: string;
  readonly clientSecretFile?: string;
  /** The CA of the provider's certificate (PEM); absent: the CAs of the boot host. */
  readonly authorityFile?: string;
  /** The address under which browsers reach the page, where it is not the listener's own. */
  readonly page?: string;
  readonly scopes: readonly string[];
  /** The claim that names the operator. */
  readonly operator: string;
  readonly roles: readonly RoleRule[];
}

/**
 * Reads the file of `--oidc`.
 *
 * @throws {MusterError} E_SCHEMA or E_YAML, with every fault
 */
export function decodeProvider(text: string, file: string): ProviderSettings {
  const yaml = readYaml(text, file);
  if (!yaml.ok) throw refused([yaml.fault]);
  const [document, second] = yaml.documents;
  if (document === undefined || second !== undefined)
    throw refused([{ code: 'E_SCHEMA', message: `${file}: write one YAML document` }]);
  const read = settings.safeParse(document.value);
  if (!read.success)
    throw refused(
      read.error.issues.map(({ path, message }) => ({
        code: 'E_SCHEMA',
        message,
        path: path.join('.'),
        at: document.spot(path.filter((one) => typeof one !== 'symbol')),
      })),
    );
  const { roles, clientSecretFile, authorityFile, page, ...rest } = read.data;
  return {
    ...rest,
    scopes: [...new Set(['openid', ...rest.scopes])],
    ...(clientSecretFile !== undefined && { clientSecretFile }),
    ...(authorityFile !== undefined && { authorityFile }),
    ...(page !== undefined && { page }),
    roles: roles.map(({ role, claims, ...given }) => ({ grant: grantOf(role as Role, given), claims })),
  };
}

const refused = (faults: readonly Fault[]): MusterError =>
  new MusterError('E_SCHEMA', '--oidc: the file does not describe an identity provider', { faults });

/** Claims of a user: what an ID token and the user information say. */
export type Claims = Readonly<Record<string, unknown>>;

const has = (value: unknown, wanted: string): boolean =>
  Array.isArray(value)
    ? value.some((one) => has(one, wanted))
    : ['string', 'number', 'boolean'].includes(typeof value) && String(value) === wanted;

/** The roles that claims give. */
export const grantsOf = (rules: readonly RoleRule[], claims: Claims): readonly Grant[] =>
  rules
    .filter((rule) =>
      Object.entries(rule.claims).every(
        ([name, wanted]) => Object.hasOwn(claims, name) && has(claims[name], wanted),
      ),
    )
    .map(({ grant }) => grant);

/** The person who logged in at the provider. */
export interface ProviderUser {
  /**
   * `oidc+NAME`: the sign keeps it apart from accounts of Muster's own, whose names cannot have it.
   */
  readonly name: string;
  /** The provider's own name for the person, which does not change. */
  readonly subject: string;
  readonly grants: readonly Grant[];
}

const USER_NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,57}$/;

/**
 * The operator of these claims.
 *
 * @throws {MusterError} E_PROVIDER_LOGIN when the claims name nobody; E_FORBIDDEN without any role
 */
export function userOf({ operator, roles }: ProviderSettings, claims: Claims): ProviderUser {
  const { sub } = claims;
  const name = Object.hasOwn(claims, operator) ? claims[operator] : undefined;
  if (typeof sub !== 'string' || sub === '' || typeof name !== 'string' || !USER_NAME.test(name))
    throw new MusterError(
      'E_PROVIDER_LOGIN',
      `the claim "${operator}" must name the operator: letters, digits, ".", "_", "@", "-", at most 58 characters`,
    );
  const grants = grantsOf(roles, claims);
  if (grants.length === 0)
    throw new MusterError('E_FORBIDDEN', `${name} has no role here: no rule of --oidc fits the claims`);
  return { name: `oidc+${name}`, subject: sub, grants };
}
