/** `muster cluster running`: prints which versions run on the machines of a cluster. */
import type { Answer } from '../../api/operations.ts';
import { openClient, type ServerOptions } from '../client.socket.ts';
import { EXIT, type Io } from '../io.ts';
import { type Column, formatOf, jsonText, lookOf, tableText, yamlText } from '../output.ts';

type Row = Answer<'GET /v1/clusters/:name/running'>['machines'][number];

const version = (program: keyof Row['versions'], heading: string): Column<Row> => ({
  heading,
  cell: ({ versions }) => versions[program],
});

/** The image that a machine runs, and behind an arrow the one that it would boot instead. */
export const imageText = (image: Row['images'] | undefined): string | undefined =>
  image?.outdated ? `${image.runs} → ${image.wants}` : image?.runs;

const COLUMNS: readonly Column<Row>[] = [
  { heading: 'NAME', cell: ({ name }) => name },
  version('kubelet', 'KUBELET'),
  version('kube-apiserver', 'API-SERVER'),
  version('etcd', 'ETCD'),
  { ...version('kube-controller-manager', 'CONTROLLER-MANAGER'), wide: true },
  { ...version('kube-scheduler', 'SCHEDULER'), wide: true },
  { heading: 'RUNTIME', wide: true, cell: ({ versions }) => versions.containerd ?? versions.crio },
  { heading: 'IMAGE', wide: true, cell: ({ images }) => imageText(images) },
];

/**
 * Prints the release of the cluster, and a row for each machine whose agent has polled.
 *
 * @throws {MusterError} what the server answers.
 */
export async function running(
  cluster: string,
  options: ServerOptions & { readonly output?: string },
  io: Io,
): Promise<number> {
  const format = formatOf(options.output, ['table', 'wide', 'json', 'yaml'] as const, 'table');
  const view = await openClient(options, io).ask('GET /v1/clusters/:name/running', {
    params: { name: cluster },
  });
  if (format === 'json') io.out(jsonText(view));
  else if (format === 'yaml') io.out(yamlText(view));
  else {
    io.out(`${cluster} may run Kubernetes ${view.version} and etcd ${view.versions.etcd}\n`);
    io.out(tableText(COLUMNS, view.machines, lookOf(io, format === 'wide')));
  }
  return EXIT.ok;
}
