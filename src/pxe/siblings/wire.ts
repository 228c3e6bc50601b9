/** What siblings ask each other. */
import { z } from 'zod';

/** GET: what the acting host wants all hosts to have. 503 from a host that does not act. */
export const WANTED_PATH = '/wanted';
/** GET, with a Range: a file. 404 from a host that lacks it. */
export const FILE_PATH = '/file/';

const hash = z.string().regex(/^[0-9a-f]{64}$/);

export const wanted = z.object({
  v: z.literal(1),
  files: z
    .array(
      z.object({
        sha256: hash,
        /** Octets; absent where the acting host does not know them. */
        size: z.int().min(0).optional(),
      }),
    )
    .max(100_000),
  /** Files that operators removed lately at the acting host. */
  removed: z.array(hash).max(10_000),
});
export type Wanted = z.output<typeof wanted>;

/** POST, by a host that was invited: {@link joinRequest}; the answer is {@link joinAnswer}. */
export const JOIN_PATH = '/join';

export const joinRequest = z.strictObject({
  v: z.literal(1),
  secret: z.string().regex(/^[0-9a-f]{32}$/),
  /** A recipient of age, to which the vault key is sealed. Its identity stays on the new host. */
  recipient: z.string().max(128),
});

/** As documents in a backup are named: no name leads out of a directory. */
const path = z
  .string()
  .regex(/^(?:[A-Za-z0-9_@%+=:,][A-Za-z0-9._@%+=:,-]*\/)*[A-Za-z0-9_@%+=:,][A-Za-z0-9._@%+=:,-]*$/);
export const joinAnswer = z.object({
  v: z.literal(1),
  host: z.string(),
  /** Settings of `muster serve`, as variables. */
  settings: z.record(z.string().regex(/^MUSTER_[A-Z_]+$/), z.string().regex(/^[^\n\r"'\\$`]*$/)),
  /** PEM files for etcd. The pair is absent unless the invitation shares it. */
  store: z.object({ ca: z.string(), pair: z.object({ cert: z.string(), key: z.string() }).optional() }),
  /** Sealed for the recipient, base64; absent when the signer has it. */
  vaultKey: z.string().optional(),
  /** Documents in files, by their paths below the configuration directory. */
  documents: z.array(z.object({ path, text: z.string() })),
  /** What the operator has to bring by hand, as sentences. */
  missing: z.array(z.string()),
});
export type JoinAnswer = z.output<typeof joinAnswer>;
