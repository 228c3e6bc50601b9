/** Registers `muster store copy`. */
import { notEmpty, type Register, withExamples } from '../register.ts';

export const registerStore: Register = (program, io, finish) => {
  const store = program
    .command('store')
    .summary('move the store of the boot host')
    .description("Moves the boot host's store between a file and etcd (docs/several-hosts.md).");
  const copy = store
    .command('copy')
    .summary('copy a store to another place')
    .description(
      'Copies all records to an empty store, reads both again, and prints how many records they have and their hash. No server may run on either. From then on the copy is the store: machines that polled it make a boot host that still has the old one stop.',
    )
    .argument('<from>', 'a file like /var/lib/muster/muster.db, or etcd://HOST:PORT,…/PREFIX')
    .argument('<to>', 'the same; a file that does not exist, or a prefix without keys')
    .option('--store-ca <file>', "the CA (PEM) of the members' certificates", notEmpty)
    .option('--store-cert <file>', 'the certificate (PEM) to show them', notEmpty)
    .option('--store-key <file>', 'the private key of that certificate (PEM)', notEmpty)
    .action(async (from: string, to: string, options) =>
      finish(await (await import('./copy.files.ts')).copy(from, to, options, io)),
    );
  withExamples(
    copy,
    [
      'muster store copy /var/lib/muster/muster.db etcd://10.0.0.1,10.0.0.2,10.0.0.3 --store-ca ca.pem --store-cert host.pem --store-key host.key',
      'move from one host to several',
    ],
    [
      'muster store copy etcd://10.0.0.1,10.0.0.2,10.0.0.3 /var/lib/muster/muster.db --store-ca ca.pem --store-cert host.pem --store-key host.key',
      'go back to one host',
    ],
  );
};
