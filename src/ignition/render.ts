/** Renders layers of configuration into the documents that a machine fetches. Pure. */
import type { Fault } from '../base/errors.ts';
import { domainName } from '../resources/fields.ts';
import { cloudInit, hiddenByMounts } from './cloudinit.ts';
import { configFault, expandConfig } from './expand.ts';
import { extraDocuments } from './extra.ts';
import { belowLateMounts, ignitionArguments, ignitionConfig } from './ignition.ts';
import { placeIn } from './ignition-places.ts';
import { IGNITION_VERSIONS, type IgnitionVersion } from './ignition-types.ts';
import { validateIgnition } from './ignition-validate.ts';
import { keyfileFaults, usesNetworkManager } from './keyfiles.ts';
import { behindLateUnits } from './late-units.ts';
import { type Merged, merge, provenance } from './merge.ts';
import { MUSTER_LAYER } from './muster-layer.ts';
import { readOnlyFaults } from './read-only.ts';
import type { ConfigLayer, Provenance, Render, Rendered, RenderInput } from './rendered.ts';
import { withoutSecrets } from './secrets.ts';
import type { TemplateScope } from './template.ts';
import { wholeFaults } from './whole.ts';

/**
 * Merges the layers (with Muster's own below them, unless the image contains the reporting script),
 * expands templates for this machine and boot, and writes the documents of the image's
 * format. Faults are E_CONFIG and name document and field.
 *
 * @example
 * const result = render(renderInput(parts, boot, image));
 * if (result.ok) send(result.value.files['user-data']);
 * else for (const { document, path, message } of result.faults) report(document, path, message);
 */
export const render: Render = (input) => {
  const merged = merge(withMusterLayer(input));
  const expanded = expandConfig(merged, scopeOf(input));
  if (!expanded.ok) return expanded;
  const { scope } = expanded;
  const config = behindLateUnits(
    expanded.config,
    input.layers.flatMap(({ lateUnits = [] }) => lateUnits),
  );
  const hostname = config.hostname ?? input.context.machine.name;
  const faults: Fault[] = [...wholeFaults(merged, config)];
  if (!domainName.safeParse(hostname).success)
    faults.push(configFault(merged, ['hostname'], `"${hostname}" is not a host name`));
  else if (hostname.length > 64)
    faults.push(
      configFault(merged, ['hostname'], `it has ${hostname.length} characters, and Linux takes 64`),
    );
  const written =
    faults.length > 0 ? undefined : write(input, merged, { ...config, hostname }, scope, faults);
  if (!written || faults.length > 0) return { ok: false, faults };
  return {
    ok: true,
    value: {
      format: input.image.configFormat,
      files: written.files,
      get kernelArguments() {
        return written.kernelArguments;
      },
      get provenance() {
        return provenanceOf(merged);
      },
      merged: { ...config, hostname },
    },
  };
};

type Written = Pick<Rendered, 'files' | 'kernelArguments'>;

function write(
  input: RenderInput,
  merged: Merged,
  whole: Rendered['merged'] & { readonly hostname: string },
  scope: TemplateScope,
  faults: Fault[],
): Written {
  const { image, context } = input;
  const { hostname } = whole;
  const config = withoutSecrets(whole);
  const { url } = context.boot;
  const extras = extraDocuments(merged, scope, image, faults);
  if (image.configFormat === 'none') return { files: {}, kernelArguments: [] };
  if (image.configFormat === 'ignition') {
    const version = (image.ignitionVersion ?? '3.3.0') as IgnitionVersion;
    const known = IGNITION_VERSIONS.includes(version);
    if (!known)
      faults.push(
        configFault(
          merged,
          [],
          `the image's ignitionVersion ${version} is none of ${IGNITION_VERSIONS.join(', ')}`,
        ),
      );
    const rendered = ignitionConfig({
      config,
      hostname,
      os: image.os,
      bootMac: context.machine.mac,
      version,
      url,
      extras: extras.ignition,
    });
    if ((config.packages ?? []).length > 0)
      faults.push(
        configFault(
          merged,
          ['packages'],
          'Ignition installs no packages; build them into the image, or use an image with cloud-init',
        ),
      );
    for (const path of belowLateMounts(config))
      faults.push(
        configFault(
          merged,
          path,
          'Ignition mounts a file system without `format` only after it has written the files, so this one would be hidden; name the format',
        ),
      );
    if (usesNetworkManager(image.os))
      for (const { path, message } of keyfileFaults(config.network?.interfaces ?? []))
        faults.push(configFault(merged, ['network', 'interfaces', ...path], message));
    for (const { path, message } of known
      ? [...validateIgnition(rendered), ...readOnlyFaults(rendered, image.os)]
      : [])
      faults.push(configFault(merged, placeIn(whole, rendered, path), `Ignition ${path}: ${message}`));
    return {
      files: {
        get ignition() {
          return `${JSON.stringify(rendered)}\n`;
        },
      },
      kernelArguments: ignitionArguments(image.os, url),
    };
  }
  const documents = cloudInit({
    config,
    hostname,
    ...(context.network?.domain !== undefined && { domain: context.network.domain }),
    instanceId: input.instanceId,
    os: image.os,
    bootMac: context.machine.mac,
    url,
    version: image.cloudInitVersion,
    extras: extras.cloudInit,
  });
  for (const path of hiddenByMounts(config))
    faults.push(
      configFault(
        merged,
        path,
        'cloud-init runs while this directory is in use, and a mount would hide its state; mount a directory below it',
      ),
    );
  if (documents.fault) faults.push(configFault(merged, ['network'], documents.fault));
  return documents;
}

/** The layers with Muster's own below, where the image needs it. */
export const withMusterLayer = ({ layers, image }: RenderInput): readonly ConfigLayer[] =>
  image.configFormat === 'none' || image.reports ? layers : [MUSTER_LAYER, ...layers];

/** The values that templates may name. */
export function scopeOf({ context }: RenderInput): TemplateScope {
  const { machine, network, profile, cluster, boot } = context;
  return {
    machine: { ...machine },
    network: network && { ...network },
    profile,
    cluster,
    boot,
  };
}

const memoProvenance = new WeakMap<Merged, ReadonlyMap<string, Provenance>>();

function provenanceOf(merged: Merged): ReadonlyMap<string, Provenance> {
  let found = memoProvenance.get(merged);
  if (!found) {
    found = provenance(merged);
    memoProvenance.set(merged, found);
  }
  return found;
}
