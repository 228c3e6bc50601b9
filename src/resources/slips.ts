/**
 * What people write by mistake where a document belongs, and what to do about it: templates that
 * were not filled in, merge keys, unresolved conflicts, documents of other tools. Pure.
 */

/** A place in a text, as an offset, and what is wrong there. */
interface Slip {
  readonly message: string;
  readonly offset: number;
}

/** A placeholder of Helm, Jinja, ERB and others, as far as its end is on the same line. */
const TEMPLATE = /\{\{[^\n]*?\}\}|\{%[^\n]*?%\}|<%[^\n]*?%>|@@[A-Za-z_][\w.-]*@@|\{\{[^\n]*|<%[=-][^\n]*/;

const unfilled = (placeholder: string): string =>
  `the template "${placeholder.length > 40 ? `${placeholder.slice(0, 37)}…` : placeholder}" was left unfilled; fill it in before applying (in \`config\`, Muster expands \${…}: docs/reference/templates.md)`;

/**
 * Why a text is not YAML, where that is a common slip; asked only about texts that cannot be read.
 */
export function slipIn(text: string): Slip | undefined {
  const conflict = /^(<{7}|>{7}|={7}$)[^\n]*/m.exec(text);
  if (conflict)
    return {
      message: 'a conflict of a merge was left in; resolve it and remove these lines',
      offset: conflict.index,
    };
  const template = new RegExp(TEMPLATE).exec(
    text.replace(/^[ \t]*#.*$/gm, (line) => ' '.repeat(line.length)),
  );
  if (template) return { message: unfilled(template[0]), offset: template.index };
  return undefined;
}

/** Whether a text has the middle or the end of a conflict that began in an earlier text. */
export const endsConflict = (text: string): boolean => {
  const first = /^(<{7}|>{7}|={7}$)/m.exec(text)?.[0];
  return first !== undefined && !first.startsWith('<');
};

/** Whether a conflict is open after this text, when one was open before it or not. */
export const conflictAfter = (text: string, before: boolean): boolean => {
  const open = text.lastIndexOf('\n<<<<<<<');
  const closed = text.lastIndexOf('\n>>>>>>>');
  if (text.startsWith('<<<<<<<') && closed < 0) return true;
  return open < 0 && closed < 0 ? before : open > closed;
};

/** Words that stand for a value that somebody has to fill in, where a name or address belongs. */
const STAND_IN =
  /^(change|replace|fix|fill)[-_ ]?me([-_ ]?in)?$|^your[-_ ]?(domain|company|org|organi[sz]ation|registry|host|hostname|endpoint|cluster|api|ip|name|key|token|secret|password)$/i;
const STAND_IN_CAPITALS = /^(TO[-_]?DO|TBD|X{3,}|PLACEHOLDER)$/;
const ADDRESS_OF_X = /^x{1,3}(\.x{1,3}){3}(:|$)/i;

const isStandIn = (value: string): boolean =>
  ADDRESS_OF_X.test(value) ||
  value.split(/[.:/@\s]+/).some((part) => STAND_IN.test(part) || STAND_IN_CAPITALS.test(part));

const fillIn = (value: string): string =>
  `"${value.length > 60 ? `${value.slice(0, 57)}…` : value}" is a placeholder; write the value itself`;

/** Characters that look like a blank or a quote, and are none in YAML. */
const ODD = /[\u00a0\u1680\u2000-\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff“”„‘’]/;

/** What is odd in a key that looks right on a screen; undefined when nothing is. */
export function oddIn(key: string): string | undefined {
  const found = ODD.exec(key)?.[0];
  if (found === undefined) return undefined;
  const code = found.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0');
  const what = /[“”„‘’]/.test(found)
    ? 'a typographic quote'
    : 'no blank, although it looks like one or like nothing';
  return `: it has the character U+${code}, ${what}; type this line anew`;
}

/** What a value was meant to be that a field did not take; undefined for any other value. */
export function slipOf(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  return templateSlip(value) ?? (isStandIn(value) ? fillIn(value) : undefined);
}

/**
 * A field whose text is shown or passed on as it is: templates of other programs, and words that
 * nobody has filled in, do no harm there.
 */
const FREE_TEXT = new Set([
  ...['content', 'contents', 'description', 'gecos', 'extra', 'variables', 'labels', 'annotations'],
  ...['merge', 'value', 'patches', 'message', 'messageExpression', 'expression'],
]);

/** One quick look at each of a hundred thousand values. */
const SUSPECT = /[<{@%$]|__|x\.x|xxx|change|replace|fix|fill|your|todo|tbd|placeholder/i;

/** The values of a document that somebody has forgotten to fill in, although a field takes them. */
export function leftIn(
  value: unknown,
  path: readonly (string | number)[] = [],
): readonly { readonly path: readonly (string | number)[]; readonly message: string }[] {
  if (typeof value === 'string') {
    if (!SUSPECT.test(value)) return [];
    // The name of a document may be any word.
    const message = path[0] === 'metadata' ? templateSlip(value) : slipOf(value);
    return message === undefined ? [] : [{ path, message }];
  }
  if (Array.isArray(value)) return value.flatMap((item, n) => leftIn(item, [...path, n]));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    FREE_TEXT.has(key) ? [] : leftIn(inner, [...path, key]),
  );
}

/** What shows that a tool should have replaced the value. */
function templateSlip(value: string): string | undefined {
  const template = TEMPLATE.exec(value);
  if (template) return unfilled(template[0]);
  if (/^(<[A-Za-z][\w .-]*>|__[A-Z][A-Z0-9_]*__|%[A-Z][A-Z0-9_]*%)$/.test(value)) return fillIn(value);
  if (/^\$\{?[A-Z_][A-Z0-9_]*\}?$/.test(value))
    return `"${value}" is a variable of a shell; Muster does not read the environment, so write the value itself`;
  return undefined;
}

export const MERGE_KEY =
  'YAML 1.2 has no merge keys ("<<"); write the fields out, or put what machines share into a Profile or Cluster';

/** Documents of other tools, by what they have. */
const FOREIGN: readonly {
  readonly is: (document: Readonly<Record<string, unknown>>) => boolean;
  readonly message: string;
}[] = [
  {
    is: ({ apiVersion }) => /^kubeadm\.k8s\.io\//.test(String(apiVersion)),
    message: 'this is a configuration of kubeadm; write a Cluster (docs/clusters.md)',
  },
  {
    is: ({ apiVersion, kind }) => apiVersion !== undefined && kind !== undefined,
    message:
      'this is no document of Muster; objects of Kubernetes are applied with kubectl or as an add-on (docs/addons.md)',
  },
  {
    is: ({ variant, version }) => variant !== undefined && version !== undefined,
    message: 'this is Butane; write it as config.extra.ignition of a Profile or Machine',
  },
  {
    is: ({ ignition }) => ignition !== undefined,
    message: 'this is Ignition; write it as config.extra.ignition of a Profile or Machine',
  },
  {
    is: ({ network, ethernets, bonds }) =>
      ethernets !== undefined || bonds !== undefined || (typeof network === 'object' && network !== null),
    message:
      'this is a network of netplan or cloud-init; write config.network of a Machine (docs/networks.md)',
  },
  {
    is: (document) =>
      ['users', 'write_files', 'runcmd', 'packages', 'bootcmd'].some((key) => Object.hasOwn(document, key)),
    message: 'this is cloud-config; write it as config.extra.cloudInit of a Profile or Machine',
  },
  {
    is: ({ machine, cluster }) => machine !== undefined && cluster !== undefined,
    message: 'this is a configuration of Talos; write Machines and a Cluster (docs/clusters.md)',
  },
];

/** Which tool a document without our apiVersion belongs to; undefined for an unknown one. */
export const foreignDocument = (document: object): string | undefined =>
  FOREIGN.find(({ is }) => is(document as Readonly<Record<string, unknown>>))?.message;
