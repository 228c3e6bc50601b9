/**
 * The one catalogue of errors: every code that an operator, a log line or the API can meet, who
 * must act, and what to do. `docs/errors.md` is generated from it and a test keeps the two equal.
 * Codes are stable: never renamed, never reused.
 */

export interface ErrorKind {
  /** What went wrong, one sentence, without the particulars. */
  readonly title: string;
  /** Who must act. */
  readonly who: 'operator' | 'machine' | 'muster';
  /** What to do about it. */
  readonly fix: string;
  /** Status when it leaves by HTTP. */
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
    title: 'A document does not fit its schema.',
    who: 'operator',
    http: 422,
    fix: 'Correct the named field; `muster explain KIND` and docs/reference list what it takes.',
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
    fix: 'Create the document, or correct the name; before deleting one, change or delete what names it.',
  },
  E_CONFIG: {
    title: "A machine's configuration does not render.",
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
    title: 'The document belongs to a file and cannot be changed here.',
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
    title: 'The document was changed by somebody else meanwhile.',
    who: 'operator',
    http: 409,
    fix: 'Fetch it again, repeat the change, apply.',
  },
  E_USAGE: {
    title: 'The command or request is not understood.',
    who: 'operator',
    http: 400,
    fix: 'See `muster help`.',
  },
  E_UNREACHABLE: {
    title: 'The server does not answer on its socket.',
    who: 'operator',
    http: 503,
    fix: 'Start `muster serve`, or name the socket with --socket.',
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
    fix: 'Stop that one, or give this one a socket of its own with --socket.',
  },
  E_PORT_IN_USE: {
    title: 'Another program has a port that the server needs.',
    who: 'operator',
    http: 409,
    fix: 'Stop that program, or give the server another port.',
  },
  E_SOCKET_OPEN: {
    title: 'The server cannot open one of its sockets.',
    who: 'operator',
    http: 500,
    fix: 'Run it as root or by its units in systemd/, and name an address and interface that this host has.',
  },
  E_OUTPUT: {
    title: 'The output of a command cannot be written.',
    who: 'operator',
    http: 500,
    fix: 'Free space where its output goes, or send it elsewhere.',
  },
  E_FILE_READ: {
    title: 'A file or directory that was named cannot be read.',
    who: 'operator',
    http: 400,
    fix: 'Check its name and its permissions.',
  },
  E_METHOD: {
    title: 'The address exists, but not with this method.',
    who: 'operator',
    http: 405,
    fix: 'Use one of the methods that the Allow header names.',
  },
  E_TOO_LARGE: {
    title: 'The request is larger than the server takes.',
    who: 'operator',
    http: 413,
    fix: 'Apply fewer documents at a time; upload files with `muster image add`.',
  },
  E_INTERNAL: {
    title: 'Muster failed in a way it did not foresee.',
    who: 'muster',
    http: 500,
    fix: 'Report it, with the log lines around it.',
  },
  // what machines boot
  E_KERNEL_ARGUMENT: {
    title: 'A kernel argument cannot be passed on by iPXE.',
    who: 'operator',
    http: 422,
    fix: 'Write it without line breaks, `${`, leading `#` and repeated blanks; one list entry per argument. All together must fit on a kernel’s command line.',
  },
  // files of images
  E_ASSET_HASH: {
    title: 'A file is not the one that its SHA-256 names.',
    who: 'operator',
    http: 422,
    fix: 'Check the source and the hash; nothing of the file is kept or served.',
  },
  E_ASSET_OFFSET: {
    title: 'An upload does not continue where the last one stopped.',
    who: 'operator',
    http: 409,
    fix: 'Ask for the asset first: it says how many octets are there.',
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
    fix: 'Remove what nothing uses (muster image ls --unused, muster image rm --unused) or free space otherwise, then send the file again. A reserve stays free for the store.',
  },
  // clusters
  E_CLUSTER: {
    title: 'A Cluster cannot be completed into a working one.',
    who: 'operator',
    http: 422,
    fix: 'Correct the field that the message names; `muster get cluster NAME --full` shows every derived value.',
  },
  // keys and certificates
  E_FOUNDING: {
    title: 'The founding of etcd does not allow this.',
    who: 'operator',
    http: 409,
    fix: 'The message says why; `muster cluster founding NAME` shows what is known of every member.',
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
    fix: 'Follow the order of a rotation: add, promote, distrust, forget.',
  },
  E_VAULT_KEY: {
    title: 'The key that private keys are encrypted with is missing or wrong.',
    who: 'operator',
    http: 500,
    fix: 'Give the server the vault key that the message names, as its file or as systemd credential muster-vault-key.',
  },
  E_VAULT_RECORD: {
    title: 'An encrypted private key does not open.',
    who: 'operator',
    http: 500,
    fix: 'The record was changed or moved; restore it from a backup of the store.',
  },
  // agents
  E_TICKET: {
    title: 'A ticket is refused.',
    who: 'machine',
    http: 403,
    fix: '`muster events MACHINE` shows why; a new boot has a new ticket.',
  },
  E_TICKET_KEY: {
    title: 'Two keys requested a certificate for one machine.',
    who: 'operator',
    http: 409,
    fix: 'Find out who asked; then `muster machine rearm MACHINE`, which lets the next key have a certificate.',
  },
  E_AGENT_CERTIFICATE: {
    title: "An agent's certificate is not accepted.",
    who: 'machine',
    http: 401,
    fix: '`muster events MACHINE` shows why; `muster machine rearm MACHINE` and a new boot give it a new one.',
  },
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
    fix: 'Put them on interfaces of their own, or set one to dhcp.mode off.',
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
    title: 'Files that an artifact is made of are not here.',
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
    title: 'A URL cannot be asked, or its server refuses the file or cannot be authenticated.',
    who: 'operator',
    http: 502,
    fix: 'Check the URL; it may need another version in its path, or credentials. A CA of your own is named by NODE_EXTRA_CA_CERTS.',
  },
  E_BUILD: {
    title: 'An image could not be built.',
    who: 'operator',
    http: 500,
    fix: 'Read what the recipe printed; install what it misses.',
  },
  // store
  E_STORE_NEWER: {
    title: 'The store was written by a newer version.',
    who: 'operator',
    http: 500,
    fix: 'Start that version, or restore a backup of this one.',
  },
  E_STORE_COMPACTED: {
    title: 'The revision asked for is compacted away.',
    who: 'muster',
    http: 410,
    fix: 'List again and watch from the revision of the list.',
  },
  E_STORE_LIMIT: {
    title: 'A commit is larger than the store takes.',
    who: 'muster',
    http: 413,
    fix: 'At most 128 operations and 1 MiB a value.',
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
    fix: 'Ask again: what is stored decides. The log has the cause.',
  },
  E_STORE_CLOSED: {
    title: 'The store is closed.',
    who: 'muster',
    http: 503,
    fix: 'The server is stopping; ask again when it runs.',
  },
  E_STORE_IN_USE: {
    title: 'Another process has the store open.',
    who: 'operator',
    http: 500,
    fix: 'Stop the other `muster serve`, or give this one a state directory of its own.',
  },
  E_STORE_OPEN: {
    title: 'The store could not be opened.',
    who: 'operator',
    http: 500,
    fix: 'Make the state directory exist and be writable for the user that the server runs as.',
  },
  E_STORE_DAMAGED: {
    title: "The store's file is damaged, or is not a store.",
    who: 'operator',
    http: 500,
    fix: 'Keep the file for inspection, put a backup in its place, and check the disk.',
  },
  // events
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
    title: 'The host does not let the virtual rack have a network of its own.',
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

/** Where in a text a fault is; lines and columns count from 1. */
export interface SourceSpot {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** One fault, as the log, the API and the command line show it. */
export interface Fault {
  readonly code: ErrorCode;
  /**
   * The particulars: what was found, where, and the fix if it is more exact than the catalogue's.
   */
  readonly message: string;
  /** Path of the field, e.g. `spec.files[0].mode`. */
  readonly path?: string;
  /** The document with the field, e.g. `Profile/worker`, where the context does not tell. */
  readonly document?: string;
  readonly at?: SourceSpot;
}

/** An error with a stable code. Everything that is thrown on purpose is one of these. */
export class MusterError extends Error {
  readonly code: ErrorCode;
  readonly faults: readonly Fault[];

  constructor(
    code: ErrorCode,
    message: string,
    options: { readonly faults?: readonly Fault[]; readonly cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'MusterError';
    this.code = code;
    this.faults = options.faults ?? [{ code, message }];
  }

  get kind(): ErrorKind {
    return ERRORS[this.code];
  }
}
