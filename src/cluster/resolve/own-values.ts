/**
 * Overrides of protected fields with the value that the field has anyway, as whoever copies
 * kubeadm's configurations writes them: they are taken, and say nothing new.
 */
import { protectedFieldsOf } from './protected-fields.ts';

type Tree = Readonly<Record<string, unknown>>;

const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What the documents of kubelet and kube-proxy begin with. */
const HEADERS: readonly (readonly [path: readonly string[], value: string])[] = (
  [
    ['kubelet', 'config', 'kubelet.config.k8s.io/v1beta1', 'KubeletConfiguration'],
    ['kubeProxy', 'config', 'kubeproxy.config.k8s.io/v1alpha1', 'KubeProxyConfiguration'],
  ] as const
).flatMap(([of, part, version, kind]) => [
  [[of, part, 'apiVersion'], version] as const,
  [[of, part, 'kind'], kind] as const,
]);

/** kubeadm's name for a value: Muster has bundles of CAs, and a directory for each kubeconfig. */
const kubeadmName = (own: string): string =>
  own
    .replace('unix:///var/run/', 'unix:///run/')
    .replace(/-bundle\.crt$/, '.crt')
    .replace(/\/([a-z-]+)\/\1\.conf$/, '/$1.conf')
    .replace(/\/sa-bundle\.pub$/, '/sa.pub');

function valueAt(tree: unknown, path: readonly string[]): unknown {
  let here = tree;
  for (const step of path) {
    if (!isTree(here) || !Object.hasOwn(here, step)) return undefined;
    here = here[step];
  }
  return here;
}

/** The tree without what is at a path. */
function without(tree: Tree, [step, ...rest]: readonly string[]): Tree {
  if (step === undefined || !Object.hasOwn(tree, step)) return tree;
  const { [step]: inner, ...others } = tree;
  if (rest.length === 0) return others;
  return isTree(inner) ? { ...others, [step]: without(inner, rest) } : tree;
}

/** A value of a flag or of a field; lists are compared as a whole. */
const isPlain = (value: unknown): boolean =>
  ['string', 'number', 'boolean'].includes(typeof value) || Array.isArray(value);

/**
 * Leaves out each protected field whose override says what the field has without it.
 *
 * @param resolve Makes the specification of a Cluster with these overrides.
 */
export function withoutOwnValues(overrides: Tree, resolve: (overrides: Tree) => unknown): Tree {
  const given = protectedFieldsOf(overrides)
    .map(({ path }) => path)
    .filter((path) => isPlain(valueAt(overrides, path)));
  const headless = HEADERS.filter(([path, value]) => valueAt(overrides, path) === value).reduce(
    (tree, [path]) => without(tree, path),
    overrides,
  );
  if (given.length === 0) return headless;
  const own = resolve(given.reduce(without, headless));
  const same = given.filter((path) => {
    const [theirs, ours] = [valueAt(overrides, path), valueAt(own, path)];
    // An empty endpoint, which kubeadm writes, stands for the one of its flag.
    if (theirs === '' && path.at(-1) === 'containerRuntimeEndpoint') return true;
    return (
      isPlain(ours) &&
      (String(theirs) === String(ours) || kubeadmName(String(theirs)) === kubeadmName(String(ours)))
    );
  });
  return same.reduce(without, headless);
}
