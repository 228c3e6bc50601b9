/** Registers `muster image add|build|import|ls|verify|rm`. */
import { type Command, Option } from 'commander';
import type { Io } from '../io.ts';
import {
  archOption,
  collect,
  type Finish,
  outputOption,
  type Register,
  withExamples,
  withServer,
} from '../register.ts';

export const registerImage: Register = (program, io, finish) => {
  const image = program
    .command('image')
    .summary('build, import, list and remove operating system images')
    .description(
      'Builds, imports, adds, lists and removes operating system images: their files and documents.',
    );
  bringVerbs(image, io, finish);
  importVerbs(image, io, finish);
  inventoryVerbs(image, io, finish);
};

function bringVerbs(image: Command, io: Io, finish: Finish): void {
  const add = withServer(
    image
      .command('add')
      .summary('upload the files of an image and apply its document')
      .description(
        'Uploads the files of an image, which the server keeps only if their SHA-256 is right, and applies its document. An interrupted upload continues where it stopped.',
      )
      .argument('[name]', 'name of the Image to make')
      .addOption(
        new Option('-f, --filename <path>', 'file with Image documents (repeatable)').argParser(collect),
      )
      .option('--dir <directory>', "with -f: base of relative urls (default: the document's directory)")
      .option('--from <directory>', 'directory with image.json, as a recipe made it')
      .option('--kernel <source>', 'kernel: file or URL')
      .addOption(
        new Option('--initrd <source>', 'initrd: file or URL (repeatable, in order)').argParser(collect),
      )
      .option('--root <source>', 'root image (squashfs): file or URL')
      .option('--disk <source>', 'image of a whole disk, for `home: disk`: file or URL')
      .option('--installer <image>', 'with --disk: Image whose kernel and initrd install it', 'discovery')
      .addOption(
        new Option(
          '--sha256 <part=hash>',
          'expected hash of a part: kernel=…, initrd=… (initrd0=…), root=…, disk=…; required for every URL',
        ).argParser(collect),
      )
      .option(
        '--trust-on-first-use',
        'accept the file of a URL that has no hash unverified, and print its hash',
      )
      .option('--os <name>', 'operating system family', 'linux')
      .option('--os-version <version>', 'version of the operating system')
      .addOption(archOption('processor').default('x86_64'))
      .addOption(
        new Option('--config-format <format>', 'how it reads its first-boot configuration')
          .choices(['cloud-init', 'ignition', 'none'])
          .default('none'),
      )
      .option('--cloud-init-version <version>', 'version of cloud-init in it')
      .addOption(
        new Option('--kernel-argument <argument>', 'argument of its kernel (repeatable)').argParser(collect),
      ),
  ).action(async (name: string | undefined, options) =>
    finish(await (await import('./add.ts')).add(name, options, io)),
  );
  withExamples(
    add,
    ['muster image add -f image.yaml', 'fetch every file that Image documents name (url, or --dir)'],
    ['muster image add --from DIRECTORY', 'add what images/NAME/build.sh has built'],
    [
      'muster image add NAME --disk disk.raw --config-format cloud-init --cloud-init-version 25.1',
      'add the image of a disk, which machines install',
    ],
    [
      'muster image add NAME --kernel vmlinuz --initrd initrd.img --config-format cloud-init',
      'add files, and make a document for them',
    ],
  );
  const build = withServer(
    image
      .command('build')
      .summary('build an image and add it')
      .description(
        "Builds an image from its recipe in images/ (debian, discovery, probe) with packages of the host's own mirror, and adds it. This takes some minutes.",
      )
      .argument('<recipe>', 'debian, discovery or probe')
      .argument('[arguments...]', 'arguments of the recipe, after --')
      .option('--name <name>', 'name of the Image (default: as the recipe says, such as debian-13)'),
  ).action(async (recipe: string, args: string[], options) =>
    finish(await (await import('./add.ts')).build(recipe, args, options, io)),
  );
  withExamples(
    build,
    ['muster image build debian', 'build an image for machines without Kubernetes'],
    ['muster image build debian -- --kubernetes', 'build an image for machines of clusters'],
    ['muster image build debian -- --suite bookworm', 'build another release'],
  );
}

function importVerbs(image: Command, io: Io, finish: Finish): void {
  const bring = withServer(
    image
      .command('import')
      .summary('make an image of a cloud image, and add it')
      .description(
        "Makes kernel, initrd and root image of a disk image (raw or qcow2) or root tarball that a distribution's publisher offers, says what of it will not work, and adds it. The root image has the files as they are; the initrd is made of the image's own modules. Runs nothing of the image, and reads it without privileges. Needs root.",
      )
      .argument('<image>', 'file or URL of a disk image or tarball')
      .option('--name <name>', 'name of the Image (default: system and version, such as debian-13)')
      .option('--sha256 <hash>', 'expected hash of the file; required for a URL')
      .option('--trust-on-first-use', 'accept the file of a URL unverified, and print its hash')
      .addOption(
        new Option('--root <number>', 'partition with the root file system, if several have one').argParser(
          Number,
        ),
      )
      .option('--to <directory>', 'write the files there for `muster image add --from`, and add nothing'),
  ).action(async (text: string, options) =>
    finish(await (await import('./import.ts')).importVerb(text, options, io)),
  );
  withExamples(
    bring,
    [
      'muster image import debian-13-genericcloud-amd64.qcow2 --name debian-13-cloud',
      'add the image of a publisher',
    ],
    ['muster image import disk.raw --to DIRECTORY', 'look at the result before you add it'],
  );
}

function inventoryVerbs(image: Command, io: Io, finish: Finish): void {
  const list = withServer(
    image
      .command('ls')
      .summary('list images and whether they are complete')
      .description('Lists images and whether their files are here.')
      .addOption(outputOption('table', 'wide', 'json', 'yaml'))
      .option('--unused', 'list files that no image needs, and incomplete uploads, instead'),
  ).action(async (options) => finish(await (await import('./inventory.ts')).list(options, io)));
  withExamples(list, ['muster image ls', 'see which images can be booted']);
  const verify = withServer(
    image
      .command('verify')
      .summary('read the files of images again')
      .description(
        'Reads the files of images again and compares their hashes. Exit code 1 when one is missing or has changed.',
      )
      .argument('[name...]', 'only these images'),
  ).action(async (names: string[], options) =>
    finish(await (await import('./inventory.ts')).verify(names, options, io)),
  );
  withExamples(verify, ['muster image verify', 'check all images after a fault of a disk']);
  const remove = withServer(
    image
      .command('rm')
      .summary('remove images and their files')
      .description('Removes images, and those of their files that no other image needs.')
      .argument('[name...]', 'names of images')
      .option('--keep-files', 'remove only the documents')
      .option('--force', 'also an image that a Profile names: its machines are held at their next boot')
      .option('--unused', 'also remove all other files that no image needs, and incomplete uploads'),
  ).action(async (names: string[], options) =>
    finish(await (await import('./inventory.ts')).remove(names, options, io)),
  );
  withExamples(remove, ['muster image rm debian-12', 'remove an image that no profile names any more']);
}
