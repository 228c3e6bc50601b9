/**
 * What people write by mistake where a document belongs, and what to do about it: templates that
 * were not filled in, merge keys, unresolved conflicts, documents of other tools. Pure.
 */

/** A place in a text, as an offset, and what is wrong there. */
interface Slip {
  readonly message: string;
  readonly offset: number;
}

/** A placeholder of Helm, Jinja and others, as far as its end is on the same line. */
const TEMPLATE = /\{\{[^\n]*?\}\}|\{%[^\n]*?%\}|\{\{[^\n]*/;

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

/** What a value was meant to be that a field did not take; undefined for any other value. */
export function slipOf(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const template = TEMPLATE.exec(value);
  if (template) return unfilled(template[0]);
  if (/^<[A-Za-z][\w .-]*>$/.test(value)) return `"${value}" is a placeholder; write the value itself`;
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
