/** Registers `muster dns zone|forget`. */
import { type Register, withExamples, withServer } from '../register.ts';

export const registerDns: Register = (program, io, finish) => {
  const dns = program
    .command('dns')
    .summary('names of machines and clusters')
    .description(
      'Prints the names of machines and clusters as a zone file, or forgets what a name server cannot remove any more. `muster get names` lists them with their state.',
    );
  const zone = withServer(
    dns
      .command('zone')
      .summary('print the names of a zone as a zone file')
      .description(
        'Prints all names of a zone, without SOA and NS: for $INCLUDE in a zone file of yours. Needs no name server.',
      )
      .argument('<zone>', 'a zone or reverse zone of a Network or Cluster'),
  ).action(async (name: string, options) => finish(await (await import('./dns.ts')).zone(name, options, io)));
  withExamples(zone, [
    'muster dns zone lab.example > /etc/bind/lab.example.machines',
    'write the names for $INCLUDE',
  ]);
  const forget = withServer(
    dns
      .command('forget')
      .summary('forget what is to be removed from a name server that is gone')
      .description(
        'Forgets the names that are to be removed from a zone (state `leaving`). Their server keeps them if it comes back.',
      )
      .argument('<zone>', 'the zone'),
  ).action(async (name: string, options) =>
    finish(await (await import('./dns.ts')).forget(name, options, io)),
  );
  withExamples(forget, ['muster dns forget lab.example', 'after the server of the zone was replaced']);
};
