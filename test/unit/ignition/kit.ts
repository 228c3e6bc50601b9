/**
 * Configurations for tests: renders documents with fixed facts of a boot.
 */
import type { Mac } from '../../../src/base/mac.ts';
import { render } from '../../../src/ignition/render.ts';
import type { ConfigLayer, RenderInput } from '../../../src/ignition/rendered.ts';
import { parseDocuments } from '../../../src/resources/document.ts';
import type { Document, Kind } from '../../../src/resources/kinds.ts';
import { type NodeConfig, nodeConfig } from '../../../src/resources/nodeconfig.ts';

export const URL = 'http://10.77.0.1:8080/boot/SESSION';

export const CONTEXT: RenderInput['context'] = {
  machine: { name: 'node-1', mac: '52:54:00:aa:00:01' as Mac, address: '10.77.0.11' },
  network: { name: 'lab', gateway: '10.77.0.1', domain: 'lab.example', subnet: '10.77.0.0/24' },
  profile: { name: 'worker' },
  boot: { url: URL, session: 'SESSION', server: '10.77.0.1' },
};

export const DEBIAN_12 = {
  os: 'debian',
  configFormat: 'cloud-init',
  cloudInitVersion: '22.4.2',
  reports: true,
} as const;
export const DEBIAN_13 = { ...DEBIAN_12, cloudInitVersion: '25.1.4' } as const;
export const FLATCAR = { os: 'flatcar', configFormat: 'ignition', reports: true } as const;
export const FEDORA = { os: 'fedora-coreos', configFormat: 'ignition', reports: true } as const;

/** Renders one fragment as the configuration of a profile. */
export function renderOne(config: unknown, image: RenderInput['image'] = DEBIAN_13, context = CONTEXT) {
  const layer: ConfigLayer = {
    layer: 'profile',
    document: 'Profile/worker',
    config: nodeConfig.parse(config),
  };
  return render({ layers: [layer], context, image, instanceId: 'node-1-SESSION' });
}

/** Like {@link renderOne}, but must succeed. */
export function rendered(config: unknown, image?: RenderInput['image'], context?: RenderInput['context']) {
  const result = renderOne(config, image, context);
  if (!result.ok) throw new Error(result.faults.map((fault) => `${fault.path}: ${fault.message}`).join('\n'));
  return result.value;
}

/** Renders every machine of a text with every image of the text. */
export function renderAll(text: string, file: string) {
  const { documents, faults } = parseDocuments(text, file);
  if (faults.length > 0) throw new Error(JSON.stringify(faults));
  const all = <K extends Kind>(kind: K) =>
    documents.map((one) => one.document).filter((one): one is Document<K> => one.kind === kind);
  const layersOf = (machine: Document<'Machine'>) => {
    const parts: [ConfigLayer['layer'], Kind, string | undefined, NodeConfig | undefined][] = [
      [
        'cluster',
        'Cluster',
        machine.spec.cluster,
        all('Cluster').find((one) => one.metadata.name === machine.spec.cluster)?.spec.config,
      ],
      [
        'profile',
        'Profile',
        machine.spec.profile,
        all('Profile').find((one) => one.metadata.name === machine.spec.profile)?.spec.config,
      ],
      ['machine', 'Machine', machine.metadata.name, machine.spec.config],
    ];
    return parts.flatMap(([layer, kind, name, config]) =>
      config ? [{ layer, document: `${kind}/${name}`, config }] : [],
    );
  };
  return all('Machine').flatMap((machine) =>
    all('Image').map((image) => ({
      machine: machine.metadata.name,
      image: image.metadata.name,
      result: render({
        layers: layersOf(machine),
        image: image.spec,
        instanceId: `${machine.metadata.name}-SESSION`,
        context: {
          ...CONTEXT,
          machine: {
            name: machine.metadata.name,
            mac: machine.spec.macs[0] as Mac,
            ...(machine.spec.addresses && { address: machine.spec.addresses[0]! }),
          },
          profile: { name: machine.spec.profile ?? 'none' },
          ...(machine.spec.cluster !== undefined && { cluster: { name: machine.spec.cluster } }),
        },
      }),
    })),
  );
}
