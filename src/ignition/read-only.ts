/**
 * Directories in which Ignition cannot write: operating systems that it configures have a read-only
 * /usr, and a file there ends the boot in the initrd. Pure.
 */
import { fieldsOf, listOf } from '../base/foreign-json.ts';

interface ReadOnly {
  readonly paths: RegExp;
  /** Where to write instead. */
  readonly instead: string;
}

/** By `os` of the image. /bin, /lib and /sbin are links into /usr. */
const READ_ONLY: Readonly<Record<string, ReadOnly>> = {
  // Also /usr/local: k0sproject/k0sctl#495, kubernetes-sigs/image-builder#906.
  flatcar: { paths: /^\/(usr|bin|sbin|lib|lib32|lib64)(\/|$)/, instead: '/opt or /etc' },
  // /usr/local is a link to /var/usrlocal there.
  'fedora-coreos': {
    paths: /^\/(usr(?!\/local\/)|bin|sbin|lib|lib64)(\/|$)/,
    instead: '/usr/local, /opt or /etc',
  },
};

interface ReadOnlyFault {
  /** In the Ignition configuration, e.g. `storage.files[0].path`. */
  readonly path: string;
  readonly message: string;
}

/** Files, directories and links of a configuration that `os` has no place for. */
export function readOnlyFaults(config: object, os: string): readonly ReadOnlyFault[] {
  const readOnly = Object.hasOwn(READ_ONLY, os) ? READ_ONLY[os] : undefined;
  const storage = fieldsOf(fieldsOf(config).storage);
  if (readOnly === undefined) return [];
  return ['files', 'directories', 'links'].flatMap((kind) =>
    listOf(storage[kind]).flatMap((item, n) => {
      const { path } = fieldsOf(item);
      if (typeof path !== 'string' || !readOnly.paths.test(path)) return [];
      const message = `${path} is in a directory that is read-only on ${os}, and the boot would end there; write it below ${readOnly.instead}`;
      return [{ path: `storage.${kind}[${n}].path`, message }];
    }),
  );
}
