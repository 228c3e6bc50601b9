/**
 * Takes references to Secrets out of a configuration. Nothing of them is in a first configuration:
 * it has neither the values nor the files that hold them, and users get their passwords later.
 */
import type { NodeConfig, NodeFile, NodeUser } from '../resources/nodeconfig.ts';
import { referenceIn, type SecretReference } from '../resources/secret-spec.ts';

type Named = SecretReference['valueFrom'];

/** A file whose content is in the configuration itself. */
export type PlainFile = Omit<NodeFile, 'content'> & { readonly content?: string | undefined };
/** A user whose password hash, if any, is in the configuration itself. */
export type PlainUser = Omit<NodeUser, 'passwordHash'> & { readonly passwordHash?: string | undefined };
/** A configuration without references to Secrets. */
export type PlainConfig = Omit<NodeConfig, 'files' | 'users'> & {
  readonly files?: PlainFile[] | undefined;
  readonly users?: PlainUser[] | undefined;
};

/** The configuration without the files and password hashes that are in Secrets. */
export function withoutSecrets(config: NodeConfig): PlainConfig {
  const { files, users, ...rest } = config;
  return {
    ...rest,
    ...(files && { files: files.flatMap(plainFile) }),
    ...(users && { users: users.map(plainUser) }),
  };
}

const plainFile = (file: NodeFile): PlainFile[] =>
  typeof file.content === 'object' ? [] : [file as PlainFile];

function plainUser({ passwordHash, ...user }: NodeUser): PlainUser {
  return typeof passwordHash === 'string' ? { ...user, passwordHash } : user;
}

/** What a machine's agent brings from Secrets. */
export interface FromSecrets {
  readonly files: readonly (Pick<NodeFile, 'path' | 'mode' | 'owner' | 'group'> & { readonly from: Named })[];
  readonly users: readonly { readonly name: string; readonly from: Named }[];
}

/** The parts of a configuration that {@link withoutSecrets} leaves out. */
export function fromSecrets({ files = [], users = [] }: NodeConfig): FromSecrets {
  return {
    files: files.flatMap(({ path, mode, owner, group, content }) => {
      const from = referenceIn(content);
      return from ? [{ path, mode, owner, group, from }] : [];
    }),
    users: users.flatMap(({ name, passwordHash }) => {
      const from = referenceIn(passwordHash);
      return from ? [{ name, from }] : [];
    }),
  };
}
