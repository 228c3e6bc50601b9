/**
 * The catalogue of errors: every code that an operator, a log line or the API can show, who must
 * act, and what to do. `docs/errors.md` is generated from it and a test keeps the two equal.
 * Codes are stable: never renamed, never reused.
 */

import { AGENT_ERRORS } from './errors-agents.ts';
import { BACKUP_ERRORS } from './errors-backup.ts';
import { IMAGE_ERRORS } from './errors-images.ts';
import { OPERATOR_ERRORS } from './errors-operators.ts';
import { RUNNING_ERRORS } from './errors-running.ts';

export interface ErrorKind {
  /** What went wrong, in one sentence without details. */
  readonly title: string;
  /** Who must act. */
  readonly who: 'operator' | 'machine' | 'muster';
  /** What to do about it. */
  readonly fix: string;
  /** The status code of an HTTP answer with this error. */
  readonly http: number;
}

export const ERRORS = {
  // documents
  E_YAML: {
    title: 'The text is not valid YAML.',
    who: 'operator',
    http: 422,
    fix: 'Correct the place that line and column point at.',
  },
  E_SCHEMA: {
    title: 'A document does not match its schema.',
    who: 'operator',
    http: 422,
    fix: 'Correct the named field; `muster explain KIND` and docs/reference list the fields and their values.',
  },
  E_DUPLICATE: {
    title: 'Two documents claim the same thing.',
    who: 'operator',
    http: 409,
    fix: 'Keep one of the two places that the message names.',
  },
  E_REFERENCE: {
    title: 'A document names another one that does not exist.',
    who: 'operator',
    http: 422,
    fix: 'Create the document, or correct the name; before deleting a document, change or delete those that name it.',
  },
  E_TRUST: {
    title: 'A Cluster does not name the tier of trust of its machines.',
    who: 'operator',
    http: 422,
    fix: 'Write `trust: segment`, `approved` or `tpm` into its spec; docs/security.md compares them. A Cluster that was accepted without it stays in force, and new keys of its machines wait for an operator.',
  },
  E_CONFIG: {
    title: "A machine's configuration cannot be rendered.",
    who: 'operator',
    http: 422,
    fix: 'Correct the document that the message names; `muster explain MACHINE` shows what the machine would get.',
  },
  E_UNREADABLE: {
    title: 'A file or directory of the configuration cannot be read.',
    who: 'operator',
    http: 500,
    fix: 'Correct its path or permissions; the server reads it as its own user.',
  },
  E_FILE_OWNED: {
    title: 'The document comes from a file and cannot be changed through the API.',
    who: 'operator',
    http: 409,
    fix: 'Edit the file that the message names; the server reloads it.',
  },
  E_NOT_FOUND: {
    title: 'Nothing has that name.',
    who: 'operator',
    http: 404,
    fix: '`muster get KIND` lists documents, `muster image ls` and `muster artifacts ls` files.',
  },
  E_CONFLICT: {
    title: 'Another request has changed the document in the meantime.',
    who: 'operator',
    http: 409,
    fix: 'Fetch it again, repeat the change and apply it.',
  },
  E_USAGE: {
    title: 'The command or request is not valid.',
    who: 'operator',
    http: 400,
    fix: 'See `muster help`.',
  },
  ...OPERATOR_ERRORS,
  E_UNREACHABLE: {
    title: 'The server does not answer.',
    who: 'operator',
    http: 503,
    fix: 'Look whether `muster serve` runs there, and whether that address is the right one.',
  },
  E_PERMISSION: {
    title: "The server's socket refuses this user.",
    who: 'operator',
    http: 403,
    fix: 'Join the group that owns the socket (`sudo adduser "$USER" muster`, then log in again), or run the command as root.',
  },
  E_SOCKET_IN_USE: {
    title: 'Another server already answers on the socket.',
    who: 'operator',
    http: 409,
    fix: 'Stop that server, or give this one another socket with --socket.',
  },
  E_PORT_IN_USE: {
    title: 'Another program uses a port that the server needs.',
    who: 'operator',
    http: 409,
    fix: 'Stop that program, or give the server another port.',
  },
  E_SOCKET_OPEN: {
    title: 'The server cannot open one of its sockets.',
    who: 'operator',
    http: 500,
    fix: 'Run it as root or with its units in systemd/, and name an address and interface that this host has.',
  },
  E_OUTPUT: {
    title: 'The output of a command cannot be written.',
    who: 'operator',
    http: 500,
    fix: 'Free space where the output goes, or write it elsewhere.',
  },
  E_FILE_READ: {
    title: 'A file or directory that was named cannot be read.',
    who: 'operator',
    http: 400,
    fix: 'Check its name and its permissions.',
  },
  E_METHOD: {
    title: 'The path exists, but not with this method.',
    who: 'operator',
    http: 405,
    fix: 'Use one of the methods that the Allow header names.',
  },
  E_TOO_LARGE: {
    title: 'The request is larger than the server accepts.',
    who: 'operator',
    http: 413,
    fix: 'Apply fewer documents at a time; upload files with `muster image add`.',
  },
  E_INTERNAL: {
    title: 'Muster failed in an unexpected way.',
    who: 'muster',
    http: 500,
    fix: 'Report it with the log lines around it.',
  },
  // what machines boot
  E_KERNEL_ARGUMENT: {
    title: 'A kernel argument cannot be passed on by iPXE.',
    who: 'operator',
    http: 422,
    fix: 'Write it without line breaks, `${`, a leading `#` and repeated blanks; one list entry per argument. All arguments together must fit on the kernel’s command line.',
  },
  // files of images
  E_ASSET_HASH: {
    title: 'A file does not have the SHA-256 that was named.',
    who: 'operator',
    http: 422,
    fix: 'Check the source and the hash. Nothing of the file is kept or served.',
  },
  E_ASSET_OFFSET: {
    title: 'An upload does not continue where the last one stopped.',
    who: 'operator',
    http: 409,
    fix: 'Request the asset first: the answer says how many octets the server has.',
  },
  E_ASSET_BUSY: {
    title: 'The same file is being uploaded already.',
    who: 'operator',
    http: 409,
    fix: 'Wait for the other upload to end, or end it.',
  },
  E_ASSET_USED: {
    title: 'An Image or an artifact names this file.',
    who: 'operator',
    http: 409,
    fix: 'Delete the Image or the artifact first.',
  },
  E_ASSET_WRITE: {
    title: 'The asset store could not write.',
    who: 'operator',
    http: 507,
    fix: 'Make the state directory writable (permissions, quota, a failing disk); the upload then resumes where it stopped.',
  },
  E_ASSET_SPACE: {
    title: 'The state directory has no room for a file.',
    who: 'operator',
    http: 507,
    fix: 'Remove unused files (muster image ls --unused, muster image rm --unused) or free space otherwise, then send the file again. A reserve stays free for the store.',
  },
  // clusters
  E_CLUSTER: {
    title: 'A Cluster document does not describe a working cluster.',
    who: 'operator',
    http: 422,
    fix: 'Correct the field that the message names; `muster get cluster NAME --full` shows every derived value.',
  },
  ...RUNNING_ERRORS,
  // keys and certificates
  ...BACKUP_ERRORS,
  E_FOUNDING: {
    title: 'The present state of the cluster’s etcd does not allow this.',
    who: 'operator',
    http: 409,
    fix: 'The message says why; `muster cluster founding NAME` shows the state of every member.',
  },
  E_ETCD_SPACE: {
    title: 'An alarm of etcd, or its space, does not allow this.',
    who: 'operator',
    http: 409,
    fix: 'The message says which member it is and what ends it; `muster cluster status NAME` shows when it has ended.',
  },
  E_CHANGE: {
    title: 'A change of the cluster that is under way, or was, does not allow this.',
    who: 'operator',
    http: 409,
    fix: 'The message says why, and which change it is.',
  },
  E_PKI: {
    title: 'Stored keys or certificates are invalid.',
    who: 'operator',
    http: 500,
    fix: 'The message names the key or record; restore it from a backup of the store.',
  },
  E_NO_KEYS: {
    title: 'The cluster has no keys yet.',
    who: 'operator',
    http: 409,
    fix: 'They are made when the first member of etcd polls: power its machines on; `muster cluster founding NAME` shows which members have polled.',
  },
  E_KEYSET: {
    title: 'A keyset does not allow this step.',
    who: 'operator',
    http: 409,
    fix: 'Follow the order of a rotation: make, trust, promote, distrust, forget.',
  },
  E_VAULT_KEY: {
    title: 'The key that encrypts private keys is missing or wrong.',
    who: 'operator',
    http: 500,
    fix: 'Give the server the vault key that the message names, as a file or as the systemd credential muster-vault-key.',
  },
  E_VAULT_RECORD: {
    title: 'An encrypted private key cannot be decrypted.',
    who: 'operator',
    http: 500,
    fix: 'The record was changed or moved; restore it from a backup of the store.',
  },
  E_SECRET: {
    title: 'A Secret cannot be written or removed like this.',
    who: 'operator',
    http: 422,
    fix: 'The message says what is wrong; `muster secret ls` lists Secrets and who uses them.',
  },
  E_NOT_EXPORTED: {
    title: 'There is no copy of keys that only this host has.',
    who: 'operator',
    http: 409,
    fix: 'Run `muster pki export --all -o FILE`, and keep the file and its passphrase away from this host.',
  },
  E_EXPORT: {
    title: 'A file of exported keys cannot be opened.',
    who: 'operator',
    http: 422,
    fix: 'Use the passphrase of that file; if it was changed, use another copy.',
  },
  // agents
  E_SOURCE: {
    title: 'A request came from an address that is in no served subnet.',
    who: 'operator',
    http: 403,
    fix: "If a machine has that address, list it in the Machine's `addresses`, or add a Network whose `subnet` contains it.",
  },
  ...AGENT_ERRORS,
  E_AGENT_WAIT: {
    title: 'No plan is available for this machine yet.',
    who: 'muster',
    http: 503,
    fix: 'The agent asks again; the message says what it waits for.',
  },
  // networks
  E_NETWORK_UNSERVED: {
    title: 'A network cannot be served from this host.',
    who: 'operator',
    http: 500,
    fix: 'Do what the message says; the other networks are served.',
  },
  E_NETWORK_SHARED: {
    title: 'Two networks are on one interface.',
    who: 'operator',
    http: 500,
    fix: 'Put each on an interface of its own, or set dhcp.mode to off in one of them.',
  },
  E_ARTIFACT: {
    title: 'A binary or container image has a form that Muster does not accept.',
    who: 'operator',
    http: 422,
    fix: 'Give a directory or tar of images (OCI layout or `docker save`) or of binaries, as docs/artifacts.md says.',
  },
  E_ADDON: {
    title: "An add-on's manifest or patch cannot be used.",
    who: 'operator',
    http: 422,
    fix: 'Correct what the message names in the add-on, as docs/addons.md says; `muster addon ls CLUSTER` shows the state of each.',
  },
  E_ARTIFACT_MISSING: {
    title: 'Files of an artifact are missing.',
    who: 'operator',
    http: 409,
    fix: 'Add them with `muster artifacts import` or `pull`; `muster artifacts verify` names them.',
  },
  E_FETCH: {
    title: 'A file cannot be fetched from its URL.',
    who: 'operator',
    http: 502,
    fix: 'Check the URL and the network; --mirror fetches from elsewhere, and `muster image add` and `muster artifacts import` take files. With a SHA-256, the same command continues where it stopped.',
  },
  E_FETCH_REFUSED: {
    title: 'A URL cannot be requested, or its server refuses the file or cannot be authenticated.',
    who: 'operator',
    http: 502,
    fix: 'Check the URL; it may need another version in its path, or credentials. Set NODE_EXTRA_CA_CERTS to trust a CA of your own, and HTTPS_PROXY to reach it through a proxy.',
  },
  E_BUILD: {
    title: 'An image could not be built.',
    who: 'operator',
    http: 500,
    fix: 'Read the output of the recipe: install what is missing, or see that its mirror can be reached.',
  },
  ...IMAGE_ERRORS,
  // store
  E_STORE_NEWER: {
    title: 'The store was written by a newer version.',
    who: 'operator',
    http: 500,
    fix: 'Start that version, or restore a backup of this one.',
  },
  E_STORE_COMPACTED: {
    title: 'The requested revision has been compacted away.',
    who: 'muster',
    http: 410,
    fix: 'List again and watch from the revision of the list.',
  },
  E_STORE_LIMIT: {
    title: 'A commit is larger than the store accepts.',
    who: 'muster',
    http: 413,
    fix: 'Commit at most 120 operations, with at most 1 MiB per value and 7 MiB in all.',
  },
  E_STORE_WRITE: {
    title: 'The store could not write.',
    who: 'operator',
    http: 503,
    fix: 'Free space on the file system of the state directory; the server continues by itself.',
  },
  E_STORE_UNSURE: {
    title: 'The store failed during a commit; whether the commit took effect is not known.',
    who: 'muster',
    http: 503,
    fix: 'Read the state again: it shows whether the commit took effect. The log has the cause.',
  },
  E_STORE_CLOSED: {
    title: 'The store is closed.',
    who: 'muster',
    http: 503,
    fix: 'The server is stopping; try again when it runs.',
  },
  E_STORE_IN_USE: {
    title: 'Another process has the store open.',
    who: 'operator',
    http: 500,
    fix: 'Stop the other `muster serve`, or name another state directory or store.',
  },
  E_STORE_OPEN: {
    title: 'The store could not be opened.',
    who: 'operator',
    http: 500,
    fix: 'Make sure that the state directory exists and that the user of the server may write to it.',
  },
  E_STORE_UNFIT: {
    title: 'The members of etcd are not fit to hold the store.',
    who: 'operator',
    http: 500,
    fix: 'Change what the message says at that member, and start the server again; docs/several-hosts.md has the settings.',
  },
  E_HOST_NOT_ACTING: {
    title: 'This host is not the acting boot host any more.',
    who: 'muster',
    http: 503,
    fix: 'Ask the host that acts now. This one stands by when its service starts again; its log says why it stopped.',
  },
  E_STORE_DAMAGED: {
    title: "The store's file is damaged, or is not a store.",
    who: 'operator',
    http: 500,
    fix: 'Keep the file for inspection, restore a backup in its place, and check the disk.',
  },
  // events
  E_AUDIT_LOG: {
    title: 'The security log cannot be written, or was changed from outside.',
    who: 'operator',
    http: 503,
    fix: 'Look at `muster audit verify`, and at the space and permissions of `audit` in the state directory; docs/audit.md says what each finding means.',
  },
  E_AUDIT_VERIFY: {
    title: 'A security log does not fit its hashes or signatures.',
    who: 'operator',
    http: 422,
    fix: 'Keep the files as they are, and compare them with exported copies and checkpoints; docs/audit.md says how.',
  },
  E_AUDIT_FILE: {
    title: 'A security log or its public key cannot be read.',
    who: 'operator',
    http: 422,
    fix: 'Name a directory with the files `audit-*.jsonl`, or an exported file; `muster audit key` prints the public key.',
  },
  E_EVENT_JOURNAL: {
    title: 'Events cannot be written to the journal.',
    who: 'operator',
    http: 503,
    fix: 'Free space on the file system of the state directory; the journal continues by itself. Boots do not depend on it.',
  },
  // images and the virtual rack
  E_LAB_TOOL: {
    title: 'A program or file that the virtual rack needs is missing or failed.',
    who: 'operator',
    http: 500,
    fix: 'Install what debian-packages.txt lists with scripts/packages.sh install.',
  },
  E_LAB_NAMESPACE: {
    title: 'The host does not allow the virtual rack to have a network namespace.',
    who: 'operator',
    http: 500,
    fix: 'Run it as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1).',
  },
  E_LAB_SERVE: {
    title: 'The boot host of the virtual rack did not start.',
    who: 'muster',
    http: 500,
    fix: "Read the server's log in the run's folder.",
  },
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof ERRORS;

/** The place of a fault in a text; lines and columns count from 1. */
export interface SourceSpot {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** One fault, as the log, the API and the command line show it. */
export interface Fault {
  readonly code: ErrorCode;
  /**
   * The details: what was found, where, and the fix if it is more exact than the catalogue's.
   */
  readonly message: string;
  /** Path of the field, e.g. `spec.files[0].mode`. */
  readonly path?: string;
  /**
   * The document that holds the field, e.g. `Profile/worker`, where the request does not name it.
   */
  readonly document?: string;
  readonly at?: SourceSpot;
}

/** The first of several faults, and the number of the others: a message for all of them. */
export const firstOf = (faults: readonly Fault[]): string =>
  `${faults[0]?.message ?? 'unknown'}${faults.length > 1 ? ` (and ${faults.length - 1} more)` : ''}`;

/** An error with a stable code. Everything that Muster throws on purpose is a MusterError. */
export class MusterError extends Error {
  readonly code: ErrorCode;
  readonly faults: readonly Fault[];
  /** When the same request may succeed, if that is known. */
  readonly retryAfterSeconds?: number;
  /** Which of the causes of this error it is, as a word for programs. */
  readonly reason?: string;

  constructor(
    code: ErrorCode,
    message: string,
    options: {
      readonly faults?: readonly Fault[];
      readonly cause?: unknown;
      readonly retryAfterSeconds?: number;
      readonly reason?: string;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'MusterError';
    this.code = code;
    this.faults = options.faults ?? [{ code, message }];
    if (options.retryAfterSeconds !== undefined) this.retryAfterSeconds = options.retryAfterSeconds;
    if (options.reason !== undefined) this.reason = options.reason;
  }

  get kind(): ErrorKind {
    return ERRORS[this.code];
  }
}
