/** The part of the catalogue of errors (errors.ts) about images of publishers. */
export const IMAGE_ERRORS = {
  E_IMPORT_HOST: {
    title: 'This host cannot import images.',
    who: 'operator',
    http: 500,
    fix: 'Run `muster image import` as root on a Debian host with the packages that the message names.',
  },
  E_IMPORT_FORMAT: {
    title: 'A file is not an image in a form that Muster reads.',
    who: 'operator',
    http: 422,
    fix: 'Give a disk image (raw or qcow2) or a tarball of a root, as docs/images.md says.',
  },
  E_IMPORT_TRUNCATED: {
    title: 'An image is not complete.',
    who: 'operator',
    http: 422,
    fix: "Download it again, and compare its hash with its publisher's (`--sha256`).",
  },
  E_IMPORT_ENCRYPTED: {
    title: 'An image is encrypted.',
    who: 'operator',
    http: 422,
    fix: 'Give an image without encryption: machines get theirs by `dataDisk.encrypt`.',
  },
  E_IMPORT_NO_ROOT: {
    title: 'No root file system is found in an image.',
    who: 'operator',
    http: 422,
    fix: 'Give an image whose root is ext4, xfs or btrfs in a partition, without LVM and without errors in it.',
  },
  E_IMPORT_ROOTS: {
    title: 'An image has several root file systems.',
    who: 'operator',
    http: 422,
    fix: 'Name the partition that Muster shall take, with --root NUMBER.',
  },
  E_IMPORT_SIZE: {
    title: 'An image is larger than machines can hold in memory.',
    who: 'operator',
    http: 422,
    fix: 'Give a smaller image. If its publisher is not known to you, do not use it.',
  },
  E_IMPORT_ENTRY: {
    title: 'An image has a file that no system needs.',
    who: 'operator',
    http: 422,
    fix: 'Ask its publisher about the file that the message names. If you do not know the publisher, do not use the image.',
  },
  E_IMPORT_KERNEL: {
    title: 'An image has no kernel that machines can boot from the network.',
    who: 'operator',
    http: 422,
    fix: "Give an image for machines and not for containers, with its distribution's own kernel.",
  },
} as const;
