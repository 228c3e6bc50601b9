/**
 * Schema of an add-on of a Cluster: manifest files pinned by hash, objects written in the document,
 * and patches to both.
 */
import { z } from 'zod';
import { name } from './fields.ts';

const manifest = z
  .strictObject({
    url: z
      .string()
      .regex(/^(https?|file):\/\/\S+$/, 'not an http://, https:// or file:// URL')
      .optional()
      .meta({
        description:
          'Where `muster artifacts pull` fetches the file: http(s)://, or file:// on the host where it runs. Absent: `muster artifacts import` brings it.',
      }),
    file: z.string().min(1).optional().meta({
      description:
        'Instead of url: a file on the boot host, relative to the file of the Cluster. It must not be read as documents: put it outside of the configuration directory, or into a subdirectory whose name begins with a dot.',
    }),
    sha256: z
      .string({
        error:
          'the SHA-256 is missing; `muster addon pin URL` fetches the file once and prints its hash, for you to compare',
      })
      .regex(/^[0-9a-f]{64}$/, 'not a SHA-256; write 64 lower-case hexadecimal digits')
      .meta({ description: 'SHA-256 of the file; a file with another hash is refused.' }),
  })
  .refine(({ url, file }) => url === undefined || file === undefined, { message: 'url or file, not both' });

const object = z
  .looseObject({
    apiVersion: z.string().meta({ description: 'apiVersion of the object.' }),
    kind: z.string().meta({ description: 'Kind of the object.' }),
    metadata: z
      .looseObject({ name: z.string().meta({ description: 'Name of the object.' }) })
      .meta({ description: 'Metadata of the object.' }),
  })
  .meta({ description: 'A Kubernetes object, as in a manifest.' });

const operation = z
  .strictObject({
    op: z.enum(['add', 'remove', 'replace', 'move', 'copy', 'test']).meta({ description: 'The operation.' }),
    path: z
      .string()
      .regex(/^(\/[^\n\r\u2028\u2029]*)?$/, 'not a JSON Pointer; write it like "/spec/replicas"')
      .meta({ description: 'JSON Pointer (RFC 6901), e.g. /spec/template/spec/containers/0/args/-' }),
    from: z.string().optional().meta({ description: 'Source, as a JSON Pointer, of move and copy.' }),
    value: z.unknown().optional().meta({ description: 'Value of add, replace and test.' }),
  })
  .meta({ description: 'One operation of JSON Patch (RFC 6902).' });

const patch = z
  .strictObject({
    target: z
      .strictObject({
        apiVersion: z.string().optional().meta({ description: 'apiVersion of the objects, e.g. apps/v1.' }),
        kind: z.string().optional().meta({ description: 'Kind of the objects, e.g. Deployment.' }),
        namespace: z
          .string()
          .optional()
          .meta({ description: 'Namespace of the objects, as written in the manifest.' }),
        name: z.string().optional().meta({ description: 'Name of the object.' }),
      })
      .refine((target) => Object.keys(target).length > 0, {
        message: 'name the objects: give kind, name, namespace or apiVersion',
      })
      .meta({
        description:
          'The objects to patch: those for which all given fields match. A patch that matches no object is a fault.',
      }),
    merge: z.record(z.string(), z.unknown()).optional().meta({
      description:
        'JSON Merge Patch (RFC 7386): sets fields; null removes a field; lists are replaced as a whole.',
    }),
    json: z.array(operation).optional().meta({
      description: 'JSON Patch (RFC 6902), for items of lists. Applied after merge.',
    }),
    remove: z.literal(true).optional().meta({ description: 'true: the objects are left out.' }),
  })
  .refine(({ merge, json, remove }) => (merge ?? json ?? remove) !== undefined, {
    message: 'name the change: give merge, json or remove',
  });

export const addon = z
  .strictObject({
    name,
    manifests: z.array(manifest).optional().meta({ description: 'Manifest files, applied in this order.' }),
    objects: z.array(object).optional().meta({
      description:
        'Objects, applied after those of the files. Do not put secrets here: documents are not encrypted.',
    }),
    patches: z.array(patch).optional().meta({ description: 'Changes to these objects, made in this order.' }),
    images: z.array(z.string()).optional().meta({
      description:
        'Images that are not found in the containers of the objects, such as those that an operator starts because of its arguments.',
    }),
  })
  .refine(({ manifests, objects }) => (manifests?.length ?? 0) + (objects?.length ?? 0) > 0, {
    message:
      'an add-on needs manifests or objects; `muster addon pin NAME` prints an entry of the catalogue with its manifests',
  });
