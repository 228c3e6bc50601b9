/**
 * The layout of shell and Perl: width, one statement a line, functions of one screen. `make check`
 * runs shellcheck.
 */
import { expect, test } from 'vitest';
import { read, trackedFiles } from './tree.ts';

const WIDTH = 100;
const FUNCTION_LINES = 40;

const INTERPRETED = /^#!.*\b(?:sh|bash|dash|perl)\b/;
/** Generated copies and programs of other projects are left out. */
const scripts = trackedFiles().filter(
  (file) =>
    /\.(?:sh|pl)$/.test(file) || (!/\.[a-z]+$/.test(file) && INTERPRETED.test(read(file).slice(0, 80))),
);
const shell = scripts.filter((file) => !/^#!.*perl/.test(read(file)));

/**
 * A script with the content of its quotes, comments, here-documents and multi-line strings taken
 * out, line by line. `$(…)` within double quotes counts as quoted.
 */
function code(text: string): string[] {
  const lines: string[] = [];
  let quote = '';
  let end: string | undefined;
  for (const line of text.split('\n')) {
    if (end !== undefined) {
      if (line === end) end = undefined;
      lines.push('');
      continue;
    }
    let kept = '';
    for (let at = 0; at < line.length; at++) {
      const char = line[at]!;
      if (quote === "'") {
        if (char === "'") quote = '';
      } else if (char === '\\') at++;
      else if (quote === '"') {
        if (char === '"') quote = '';
      } else if (char === '"' || char === "'") quote = char;
      else if (char === '#' && /(?:^|[\s;(])$/.test(line.slice(0, at))) break;
      else kept += char;
    }
    const here = /<<-?\s*(?:\\|'|")?([A-Z_]+)/.exec(line);
    if (here && quote === '' && kept.includes('<<')) end = here[1];
    lines.push(kept);
  }
  return lines;
}

/** Whether a line holds more than one statement; a last `|| return 1` does not count. */
function crowded(line: string): boolean {
  const bare = line
    .replaceAll(/\$\{[^{}]*\}|;;/g, '')
    .replace(/\|\| (?:return(?: [01])?|continue|exit 1)$/, '')
    .replaceAll(/;\s*(?:then|do)\b/g, '')
    .trim();
  if (/^(?:if|elif|while|until)\b/.test(bare)) return bare.includes(';');
  return bare.includes(';') || (bare.match(/&&|\|\|/g) ?? []).length > 1;
}

test(`no line of a script or unit is wider than ${WIDTH} columns`, () => {
  const units = trackedFiles().filter((file) => file.endsWith('.service'));
  const wide = [...scripts, ...units].flatMap((file) =>
    read(file)
      .split('\n')
      .flatMap((line, n) => ([...line].length > WIDTH ? [`${file}:${n + 1}`] : [])),
  );
  expect(wide).toEqual([]);
});

test("the agent's scripts are ASCII, because one other character doubles a configuration's memory", () => {
  const others = scripts.filter((file) => file.startsWith('src/agent/') && /[^\n\t -~]/.test(read(file)));
  expect(others).toEqual([]);
});

test('a line of shell holds one statement', () => {
  const found = shell.flatMap((file) =>
    code(read(file)).flatMap((line, n) => (crowded(line) ? [`${file}:${n + 1}: ${line.trim()}`] : [])),
  );
  expect(found).toEqual([]);
});

test(`a function of a script has at most ${FUNCTION_LINES} lines, and says what it does`, () => {
  const found = scripts.flatMap((file) => {
    const lines = read(file).split('\n');
    return lines.flatMap((line, begin) => {
      const name = /^(?:sub )?([a-z_0-9]+)(?:\(\))? \{$/.exec(line)?.[1];
      if (name === undefined) return [];
      const length = lines.indexOf('}', begin) - begin - 1;
      return [
        ...(length > FUNCTION_LINES ? [`${file}: ${name} has ${length} lines`] : []),
        ...(lines[begin - 1]?.startsWith('#') ? [] : [`${file}: ${name} says nothing`]),
      ];
    });
  });
  expect(found).toEqual([]);
});

/** Programs that ask hardware or another program, which may hang. */
const ASKING =
  /(?<![\w./$-])(?:timeout(?= \S+ \S)|ipmitool|lsblk|smartctl|nvme|networkctl|udevadm|dmidecode|ethtool|lldpc(?:li|tl)|hdparm|sg_\w+|storcli\w*|blkid|wipefs|tpm2_\w+|openssl s_client|cryptsetup token export)(?![\w.-])/g;
/** What comes directly before one of them. */
const BOUNDED = /(?:\bwithin [0-9]+ (?:env (?:\w+=\S+ )*)?|\bcommand -v |\binventory_ask \w+ [0-9]+ )$/;

test('scripts of the agent call programs that may hang only through `within`', () => {
  const found = shell
    .filter((file) => /^src\/agent\//.test(file) && file !== 'src/agent/scripts/muster-within.sh')
    .flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, n) => {
          // Comments, and what is within quotes, are not called; $(…) within double quotes is.
          const bare = line.replace(/^\s*#.*/, '').replaceAll(/'[^']*'/g, "''");
          const calls = bare.replaceAll(/"(?:[^"$]|\$(?!\())*"/g, (text) => text.replaceAll(/\w/g, '.'));
          return [...calls.matchAll(ASKING)].flatMap(({ 0: name, index }) =>
            BOUNDED.test(bare.slice(0, index)) ? [] : [`${file}:${n + 1}: ${name}`],
          );
        }),
    );
  expect(found).toEqual([]);
});
