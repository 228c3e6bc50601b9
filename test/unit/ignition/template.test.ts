/** Templates only insert values, and each fault has its line and a hint. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  expand,
  TEMPLATE_NAMES,
  type TemplateScope,
  templateFault,
  templateLiteral,
} from '../../../src/ignition/template.ts';

const scope: TemplateScope = {
  machine: { name: 'node-1', serial: undefined, mac: '52:54:00:00:00:01' },
  network: undefined,
  var: { port: 8080, on: true, nested: { a: 1 }, tricky: '${machine.name}' },
};

const text = (template: string) => {
  const result = expand(template, scope);
  return result.ok ? result.text : `line ${result.line}: ${result.message}`;
};

test.each([
  ['plain', 'plain'],
  ['', ''],
  ['${machine.name}', 'node-1'],
  ['<${machine.name}${var.port}>', '<node-18080>'],
  ['${var.on}', 'true'],
  ['$${HOME}', '${HOME}'],
  ['$$${machine.name}', '$${machine.name}'],
  ['$ { $x $$ $(y) }', '$ { $x $$ $(y) }'],
  ['a$', 'a$'],
  // An inserted value is not scanned again.
  ['${var.tricky}', '${machine.name}'],
])('%j becomes %j', (template, result) => {
  expect(text(template)).toBe(result);
});

test.each([
  ['a\nb ${machine.nmae}', 'line 2: there is no "${machine.nmae}"; did you mean "machine.name"?'],
  ['${var.prot}', 'line 1: there is no "${var.prot}"; did you mean "var.port"?'],
  ['${HOME}', 'line 1: there is no "${HOME}"; for a literal "${" (a shell variable) write "$${"'],
  ['${machine.serial}', 'line 1: "${machine.serial}" has no value for this machine'],
  ['${network.gateway}', 'line 1: "${network.gateway}" has no value for this machine'],
  ['x ${machine.name', 'line 1: "${machine.name" has no closing brace; for a literal "${" write "$${"'],
  ['$${a}\n$${b}\n${b.c}', 'line 3: there is no "${b.c}"; for a literal "${" (a shell variable) write "$${"'],
])('%j is refused: %s', (template, message) => {
  expect(text(template)).toBe(message);
});

test.each([
  '${}',
  '${ machine.name }',
  '${machine}',
  '${machine.name.length}',
  '${var.nested}',
  '${machine["name"]}',
  '${machine.constructor}',
  '${__proto__.x}',
  '${machine.__proto__}',
  '${var.toString}',
  '${`x`}',
  '${1+1}',
  '${machine.name\0}',
])('%j does not reach anything else', (template) => {
  expect(expand(template, scope).ok).toBe(false);
});

test('a literal expands to itself, whatever it contains', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('$', '{', '}', 'a', '\n', '.') }), (any) => {
      // `$` directly before a placeholder looks like an escape; the literal never makes one.
      expect(expand(templateLiteral(any), {})).toEqual({ ok: true, text: any });
    }),
    { numRuns: 2000 },
  );
});

test('the size of the result is bounded, and the time is linear', () => {
  const big = 'x'.repeat(1000);
  const many = '${var.big}'.repeat(100_000);
  const result = expand(many, { var: { big } });
  expect(result).toMatchObject({ ok: false, message: 'grows beyond 1048576 characters' });
  const started = process.cpuUsage();
  for (const hostile of [
    '${'.repeat(200_000),
    '$${'.repeat(200_000),
    '$'.repeat(400_000),
    `\${${'a'.repeat(400_000)}`,
  ]) {
    expand(hostile, scope);
    templateFault(hostile);
  }
  expect(process.cpuUsage(started).user).toBeLessThan(3_000_000);
});

test('a profile may use the names of the table and any variable', () => {
  for (const name of Object.keys(TEMPLATE_NAMES)) expect(templateFault(`a \${${name}}`)).toBeUndefined();
  expect(templateFault('${var.anything} $${HOME}')).toBeUndefined();
  expect(templateFault('${machine.nam}')).toContain('did you mean "machine.name"');
  expect(templateFault('${HOME}')).toContain('write "$${"');
  expect(templateFault('${machine.name')).toContain('no closing brace');
});
