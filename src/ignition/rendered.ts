/** The input and the result of rendering a first-boot configuration. */
import type { Fault } from '../base/errors.ts';
import type { Mac } from '../base/mac.ts';
import type { ImageSpec } from '../resources/kinds.ts';
import type { NodeConfig } from '../resources/nodeconfig.ts';

/**
 * Where a merged value came from, e.g. `{layer: 'profile', document: 'Profile/worker', path:
 * 'spec.config.hostname'}`.
 */
export interface Provenance {
  readonly layer: 'muster' | 'cluster' | 'profile' | 'machine';
  readonly document: string;
  readonly path: string;
}

/** One layer of a configuration. In a list of layers, widest first, a later one wins. */
export interface ConfigLayer {
  readonly layer: Provenance['layer'];
  readonly document: string;
  readonly config: NodeConfig;
  /**
   * Units that do not exist yet when the configuration is applied, because the agent makes them
   * later; others may ask to start after them.
   */
  readonly lateUnits?: readonly string[];
}

/** The values that templates may name: `${machine.name}`, `${network.gateway}`, `${var.x}` … */
interface TemplateContext {
  readonly machine: {
    readonly name: string;
    readonly mac: Mac;
    readonly uuid?: string;
    readonly serial?: string;
    readonly address?: string;
    readonly address6?: string;
  };
  readonly network?: {
    readonly name: string;
    readonly gateway?: string;
    readonly domain?: string;
    readonly subnet: string;
  };
  readonly profile: { readonly name: string };
  readonly cluster?: { readonly name: string };
  /** The boot session; previews have a visible stand-in. */
  readonly boot: { readonly url: string; readonly session: string; readonly server: string };
}

export interface RenderInput {
  readonly layers: readonly ConfigLayer[];
  readonly context: TemplateContext;
  readonly image: Pick<ImageSpec, 'configFormat' | 'cloudInitVersion' | 'ignitionVersion' | 'os' | 'reports'>;
  /** cloud-init's instance id: another one makes this boot a first boot. */
  readonly instanceId: string;
}

export interface Rendered {
  readonly format: ImageSpec['configFormat'];
  /** By the name under which machines fetch them. */
  readonly files: Readonly<
    Partial<Record<'user-data' | 'meta-data' | 'vendor-data' | 'network-config' | 'ignition', string>>
  >;
  /** Kernel arguments that make the image find its configuration. */
  readonly kernelArguments: readonly string[];
  /** Path in the merged NodeConfig → where it came from. */
  readonly provenance: ReadonlyMap<string, Provenance>;
  /** The merged, expanded configuration. */
  readonly merged: NodeConfig;
}

/** Signature of `render` in `src/ignition/render.ts`: pure, no I/O. */
export type Render = (
  input: RenderInput,
) =>
  | { readonly ok: true; readonly value: Rendered }
  | { readonly ok: false; readonly faults: readonly Fault[] };
