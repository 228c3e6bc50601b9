/** Registers `muster validate|apply|edit|diff|get|delete`. */
import {
  filenameOption,
  outputOption,
  type Register,
  withExamples,
  withJsonPath,
  withServer,
} from '../register.ts';

const registerValidate: Register = (program, io, finish) => {
  const validate = program
    .command('validate')
    .summary('check documents without a server')
    .description(
      'Checks documents without a server: their schemas, their references to each other, and that the configuration of every machine renders.',
    )
    .argument('[directory]', 'directory of YAML documents')
    .addOption(filenameOption())
    .option(
      '--with-binaries <dir>',
      'also ask the programs of Kubernetes and etcd in this directory about the values of Clusters, as a server that has them does at `muster apply`',
    )
    .action(async (directory: string | undefined, options) =>
      finish(await (await import('./validate.ts')).validate(directory, options, io)),
    );
  withExamples(
    validate,
    ['muster validate /etc/muster', 'check a configuration directory before a reload'],
    ['muster validate /etc/muster --with-binaries ./bin', 'ask kubelet, kube-apiserver … what they take'],
  );
};

const registerEdit: Register = (program, io, finish) => {
  const edit = withServer(
    program
      .command('edit')
      .summary('change a document in an editor')
      .description(
        'Opens a document in $VISUAL or $EDITOR (default: vi) and applies what was saved. A text with faults is shown again with the faults above it; saved unchanged, it is given up.',
      )
      .argument('<kind>', 'kind, or KIND/NAME')
      .argument('[name]', 'name of the document')
      .option('--confirm <cluster...>', 'names of clusters in which you accept changes that need it'),
  ).action(async (kind: string, name: string | undefined, options) =>
    finish(
      await (await import('./edit.files.ts')).edit(
        [kind, ...(name === undefined ? [] : [name])],
        options,
        io,
      ),
    ),
  );
  withExamples(edit, ['muster edit machine node-1', 'change the document of a machine']);
};

export const registerDocuments: Register = (program, io, finish) => {
  registerValidate(program, io, finish);

  const apply = withServer(
    program
      .command('apply')
      .summary('create or change documents')
      .description(
        'Creates or changes the documents of files: all of them, or none if one has a fault. More than 120 documents are checked together and stored in steps.',
      )
      .addOption(filenameOption().makeOptionMandatory())
      .option('-R, --recursive', 'accepted for kubectl users: directories are always read recursively')
      .option('--dry-run', 'check, and say what would change')
      .option('--confirm <cluster...>', 'names of clusters in which you accept changes that need it'),
  ).action(async (options) => finish(await (await import('./apply.ts')).apply(options, io)));
  withExamples(
    apply,
    ['muster apply -f machines.yaml', 'create or change what a file describes'],
    ['muster apply -f cluster/ --dry-run', 'check a directory, and say what would change'],
    ['muster get cluster blue -o yaml | sed s/1.35/1.36/ | muster apply -f -', 'change a document in place'],
  );

  registerEdit(program, io, finish);

  const diff = withServer(
    program
      .command('diff')
      .summary('show what apply would change')
      .description(
        'Shows as a unified diff what `apply` would change. Exit codes: 0 nothing, 1 something, 2 failed.',
      )
      .addOption(filenameOption().makeOptionMandatory()),
  ).action(async (options) => finish(await (await import('./diff.ts')).diff(options, io)));
  withExamples(diff, ['muster diff -f machines.yaml', 'compare a file with what the server has']);

  const get = withServer(
    program
      .command('get')
      .summary('list documents, machines, leases, events and inventory')
      .description(
        'Lists documents of a kind with their status: networks (net), images (img), clusters (cl), profiles (prof) and machines (m); also leases, events, the inventory that machines report, and the names of machines and clusters at name servers.',
      )
      .argument('<kind>', 'kind, KIND,KIND, KIND/NAME, or all')
      .argument('[name...]', 'only these; after KIND/NAME, further KIND/NAME of any kind')
      .addOption(
        withJsonPath(
          outputOption('table', 'wide', 'json', 'yaml', 'name', 'ansible', 'csv', 'hosts', 'ssh-config'),
        ),
      )
      .option('-l, --selector <labels>', 'only those with these labels: key=value,key!=value')
      .option('-w, --watch', 'keep running, and print what changes')
      .option('--no-headers', 'leave out the line of headings')
      .option('--full', 'for one cluster: print every derived value and where it came from'),
  ).action(async (kind: string, names: string[], options) =>
    finish(await (await import('./get.ts')).get([kind, ...names], options, io)),
  );
  withExamples(
    get,
    ['muster get machines', 'list all machines: condition, profile, address, and why one is held'],
    ['muster get machine node-1 -o yaml', 'print one machine as a document with its status'],
    ['muster get machines -l rack=a -w', 'watch the machines of one rack'],
    ['muster get cluster blue --full', 'print everything that follows from a short Cluster document'],
    ['muster get leases', 'list the addresses that are in use'],
    ['muster get machines -l rack=a -o ansible >rack-a.yaml', 'write an inventory for Ansible'],
    ['muster get machines -o csv >racks.csv', 'write a table that `muster import csv` reads'],
    [
      'muster get machines -o jsonpath=\'{range .items[*]}{.metadata.name}{"\\n"}{end}\'',
      'print the names alone, by a template as kubectl has them',
    ],
    ['muster get machines -o ssh-config >~/.ssh/config.d/racks', 'make `ssh node-1` find its address'],
    ['muster get inventory node-1', 'show processors, memory, disks and cards of a machine'],
  );

  const remove = withServer(
    program
      .command('delete')
      .summary('delete documents, forget machines')
      .description(
        'Deletes documents that the API owns, or forgets a machine that was only seen; with -f, the documents of files. All of them are checked as one change: if one cannot be deleted, none is.',
      )
      .argument('[kind]', 'kind, or KIND/NAME')
      .argument('[name...]', 'names; after KIND/NAME, further KIND/NAME of any kind')
      .addOption(filenameOption())
      .option('--all', 'all of the kind')
      .option('-l, --selector <labels>', 'those of the kind with these labels: key=value,key!=value')
      .option('--ignore-not-found', 'succeed when a document does not exist')
      .option('--force', 'also an Image that a Profile names: its machines are held at their next boot')
      .option('--dry-run', 'check, and say what would be deleted'),
  ).action(async (kind: string | undefined, names: string[], options) =>
    finish(
      await (await import('./apply.ts')).remove(kind === undefined ? [] : [kind, ...names], options, io),
    ),
  );
  withExamples(
    remove,
    ['muster delete machine node-1', 'delete one document'],
    ['muster delete -f rack-1.yaml --dry-run', 'say what would be deleted, and change nothing'],
  );
};
