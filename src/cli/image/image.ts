/** `muster image add|build|ls|verify|rm` */
import { type Command, Option } from 'commander';
import type { Io } from '../io.ts';

const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

/** Adds `image` and its sub-verbs to the command tree. */
export function registerImage(program: Command, io: Io, finish: (code: number) => void): void {
  const socket = () => new Option('--socket <path>', "the server's unix socket").env('MUSTER_SOCKET');
  const image = program
    .command('image')
    .description('Operating systems to boot: their files and their documents.');
  image
    .command('add')
    .summary('bring the files of an image to the server')
    .description(
      [
        'Brings the files of an image to the server, which serves only what fits its SHA-256, and applies its document.',
        '',
        '  muster image add -f image.yaml          fetches every file that the Image documents name (url, or --dir)',
        '  muster image add --from DIRECTORY       what images/NAME/build.sh has built',
        '  muster image add NAME --kernel FILE|URL [--initrd FILE|URL]… [--root FILE|URL] --os debian --config-format cloud-init',
        '',
        'An upload that was broken off goes on where it stopped.',
      ].join('\n'),
    )
    .argument('[name]', 'name of the Image to make')
    .addOption(
      new Option('-f, --filename <path>', 'file with Image documents (repeatable)').argParser(collect),
    )
    .option('--dir <directory>', "with -f: where files are whose url is relative; default: the file's own")
    .option('--from <directory>', 'directory with image.json, as a recipe made it')
    .option('--kernel <source>', 'file or URL')
    .addOption(new Option('--initrd <source>', 'file or URL (repeatable, in order)').argParser(collect))
    .option('--root <source>', 'root image (squashfs), file or URL')
    .addOption(
      new Option(
        '--sha256 <part=hash>',
        'what a file must be: kernel=…, initrd=… (initrd0=…), root=…; needed for every URL',
      ).argParser(collect),
    )
    .option('--trust-on-first-use', 'take a URL without a hash as it comes, and print its hash')
    .option('--os <name>', 'operating system family', 'linux')
    .option('--os-version <version>', 'its version')
    .addOption(new Option('--arch <arch>', 'processor').choices(['x86_64', 'aarch64']).default('x86_64'))
    .addOption(
      new Option('--config-format <format>', 'how it takes its configuration')
        .choices(['cloud-init', 'ignition', 'none'])
        .default('none'),
    )
    .option('--cloud-init-version <version>', "cloud-init's version in it")
    .addOption(
      new Option('--kernel-argument <argument>', 'for its command line (repeatable)').argParser(collect),
    )
    .addOption(socket())
    .action(async (name: string | undefined, options) =>
      finish(await (await import('./add.ts')).add(name, options, io)),
    );
  image
    .command('build')
    .summary('build an image and add it')
    .description(
      "Builds an image from its recipe in images/ (debian, probe) out of the host's own mirror, and adds it.",
    )
    .argument('<recipe>', 'debian or probe')
    .argument(
      '[arguments...]',
      'for the recipe, after --, e.g. -- --suite bookworm, or -- --ignition instead of cloud-init',
    )
    .option('--name <name>', "the Image's name; default: as the recipe says, e.g. debian-13")
    .addOption(socket())
    .action(async (recipe: string, args: string[], options) =>
      finish(await (await import('./add.ts')).build(recipe, args, options, io)),
    );
  image
    .command('ls')
    .summary('list images and whether they are complete')
    .description('Lists images and whether their files are here.')
    .addOption(
      new Option('-o, --output <format>', 'output format').choices(['table', 'wide', 'json', 'yaml']),
    )
    .option('--unused', 'list files that no image needs instead')
    .addOption(socket())
    .action(async (options) => finish(await (await import('./verbs.ts')).list(options, io)));
  image
    .command('verify')
    .summary('read the files of images again')
    .description(
      'Reads the files of images again and compares their hashes. Exit code 1: one is missing or has changed.',
    )
    .argument('[name...]', 'only these')
    .addOption(socket())
    .action(async (names: string[], options) =>
      finish(await (await import('./verbs.ts')).verify(names, options, io)),
    );
  image
    .command('rm')
    .summary('remove images and their files')
    .description('Removes images, and those of their files that no other image needs.')
    .argument('[name...]', 'which')
    .option('--keep-files', 'only the documents')
    .option('--force', 'also what a Profile names: its machines are held at their next boot')
    .option('--unused', 'also all other files that no image needs')
    .addOption(socket())
    .action(async (names: string[], options) =>
      finish(await (await import('./verbs.ts')).remove(names, options, io)),
    );
}
