/**
 * What a Cluster says of an add-on: files of objects by hash, objects of its own, and what is
 * changed in them.
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
          'Where `muster artifacts pull` fetches it: http(s)://, or file:// of the host that it runs on. Absent: `muster artifacts import` brings it.',
      }),
    file: z.string().min(1).optional().meta({
      description:
        "Instead of url: a file of the boot host, relative to the Cluster's own file. Not one that is read as documents: outside of that directory, or below one whose name begins with a dot.",
    }),
    sha256: z
      .string({
        error:
          'the SHA-256 is missing; `muster addon pin URL` fetches the file once and says it, for you to compare',
      })
      .regex(/^[0-9a-f]{64}$/, 'not a SHA-256; write 64 lower-case hexadecimal digits')
      .meta({ description: 'SHA-256 of the file: what has another one is not taken.' }),
  })
  .refine(({ url, file }) => url === undefined || file === undefined, { message: 'url or file, not both' });

const object = z
  .looseObject({
    apiVersion: z.string(),
    kind: z.string(),
    metadata: z.looseObject({ name: z.string().meta({ description: 'Its name.' }) }),
  })
  .meta({ description: 'An object of Kubernetes, as in a manifest.' });

const operation = z
  .strictObject({
    op: z.enum(['add', 'remove', 'replace', 'move', 'copy', 'test']).meta({ description: 'What is done.' }),
    path: z
      .string()
      .regex(/^(\/.*)?$/, 'not a JSON Pointer; write it like "/spec/replicas"')
      .meta({ description: 'JSON Pointer (RFC 6901), e.g. /spec/template/spec/containers/0/args/-' }),
    from: z.string().optional().meta({ description: 'Of move and copy: from where.' }),
    value: z.unknown().optional().meta({ description: 'Of add, replace and test.' }),
  })
  .meta({ description: 'One operation of JSON Patch (RFC 6902).' });

const patch = z
  .strictObject({
    target: z
      .strictObject({
        apiVersion: z.string().optional().meta({ description: 'E.g. apps/v1.' }),
        kind: z.string().optional().meta({ description: 'E.g. Deployment.' }),
        namespace: z.string().optional().meta({ description: 'As the manifest says it.' }),
        name: z.string().optional().meta({ description: "The object's name." }),
      })
      .refine((target) => Object.keys(target).length > 0, {
        message: 'say which objects: kind, name, namespace or apiVersion',
      })
      .meta({
        description: 'Which objects: those that have all of this. A patch that is for none is a fault.',
      }),
    merge: z.record(z.string(), z.unknown()).optional().meta({
      description:
        'JSON Merge Patch (RFC 7386): fields that are set; null takes one out; lists are replaced.',
    }),
    json: z.array(operation).optional().meta({
      description: 'JSON Patch (RFC 6902), for items of lists; after merge.',
    }),
    remove: z.literal(true).optional().meta({ description: 'true: the object is left out.' }),
  })
  .refine(({ merge, json, remove }) => (merge ?? json ?? remove) !== undefined, {
    message: 'say what is changed: merge, json or remove',
  });

export const addon = z
  .strictObject({
    name,
    manifests: z.array(manifest).optional().meta({ description: 'Files of objects, in this order.' }),
    objects: z.array(object).optional().meta({
      description:
        'Objects that stand here, after those of the files. Not for secrets: documents are not encrypted.',
    }),
    patches: z.array(patch).optional().meta({ description: 'Changes to these objects, in this order.' }),
    images: z.array(z.string()).optional().meta({
      description:
        'Images besides those of the containers that are found in the objects: what an operator starts by its arguments.',
    }),
  })
  .refine(({ manifests, objects }) => (manifests?.length ?? 0) + (objects?.length ?? 0) > 0, {
    message:
      'an add-on needs manifests or objects; `muster addon pin NAME` prints an entry of the catalogue with its manifests',
  });
