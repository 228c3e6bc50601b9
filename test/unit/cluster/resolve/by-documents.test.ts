/**
 * Versions that are known by documents: how far the documents can be trusted is measured on 1.36,
 * which is known both ways, and a Cluster accepts such a version by name.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { helpOfPage, mergedLines } from '../../../../scripts/component-documents.ts';
import { allLines, flagsIn, inputsIn, linesOf } from '../../../../scripts/component-tables.ts';
import { MINORS, RELEASES } from '../../../../src/cluster/model/versions.ts';
import { faults, resolved } from '../kit.ts';

const refusal =
  'error version: Muster knows Kubernetes 1.37 by documents only: none of its programs has judged these values. Use 1.34, 1.35, 1.36, or accept that with acceptUntested: "1.37"';

test('a version that is known by documents is refused until the Cluster accepts it', () => {
  expect(faults({ version: '1.37', acceptUntested: undefined })).toEqual([refusal]);
  expect(faults({ version: '1.37.1', acceptUntested: '1.38' })).toEqual([refusal]);
  expect(faults({ version: '1.37', acceptUntested: '1.37' })).toEqual([]);
  expect(faults({ version: '1.36', acceptUntested: undefined })).toEqual([]);
  expect(MINORS.filter((minor) => RELEASES[minor].known === 'documents')).toEqual(['1.37']);
});

test('the README says of each version how it is known, and until when it is supported', () => {
  const rows = [...readFileSync('README.md', 'utf8').matchAll(/^\| (1\.\d+) \| (\S+) \| \*(.+?)\* \|/gm)];
  expect(rows.map(([, minor, until, known]) => [minor, until, known])).toEqual(
    MINORS.map((minor) => {
      const { endOfLife, known } = RELEASES[minor];
      return [minor, endOfLife, known === 'run' ? 'run' : 'by documents'];
    }),
  );
});

test('on 1.36 documents say what its programs and its source say, but for new flags and controllers', () => {
  const all = allLines();
  const binaries = new Set(all.get('1.36'));
  const documents = new Set(linesOf('1.36', inputsIn('1.36.documents.json.gz'), all));
  const differ = [...binaries].filter((line) => !documents.has(line));
  expect(binaries.size).toBeGreaterThan(1200);
  // Gates with stage and lock, dependencies, fields and API versions agree, all of them.
  expect(differ.map((line) => line.split(' ').slice(0, 3).join(' '))).toEqual([
    'controller podgroup-protection-controller',
    'controller resourcepoolstatusrequest-controller',
    // Four admission plugins are new.
    'flag kube-apiserver admission-control',
    'flag kube-apiserver disable-admission-plugins',
    'flag kube-apiserver enable-admission-plugins',
    'flag kube-apiserver tls-curve-preferences',
    'flag kube-controller-manager concurrent-resourceclaim-syncs',
    'flag kube-controller-manager tls-curve-preferences',
    'flag kube-scheduler tls-curve-preferences',
  ]);
  // What documents have and 1.36 has not: the three lists of plugins of 1.35.
  expect([...documents].filter((line) => !binaries.has(line))).toHaveLength(3);
});

test('what the release notes of 1.37 end is refused, and what takes its place is named', () => {
  const flags = (component: string, values: Record<string, string>): string[] =>
    faults({ version: '1.37', overrides: { flags: { [component]: values } } });
  expect(flags('kubelet', { 'boot-id-file': '/x' })).toEqual([
    'error overrides.flags.kubelet.boot-id-file: kubelet 1.37 has no flag --boot-id-file; 1.34, 1.35, 1.36 know it; remove it: cAdvisor in kubelet reads it no more',
  ]);
  expect(flags('kube-apiserver', { 'feature-gates': 'SidecarContainers=true' })).toEqual([
    'error overrides.flags.kube-apiserver.feature-gates: Kubernetes 1.37 has no feature gate SidecarContainers; 1.34, 1.35, 1.36 know it',
  ]);
  expect(flags('kube-apiserver', { 'feature-gates': 'NodeDeclaredFeatures=false' })).toEqual([
    expect.stringContaining('NodeDeclaredFeatures is true in Kubernetes 1.37 and cannot be changed'),
  ]);
  expect(flags('kube-apiserver', { 'enable-admission-plugins': 'PodGroupWorkloadExists' })).toEqual([
    expect.stringContaining('kube-apiserver 1.37 has no "PodGroupWorkloadExists"'),
  ]);
});

test('from 1.37 on kube-proxy gets the mode that kubeadm writes', () => {
  expect(resolved({ version: '1.37' }).kubeProxy.config).toMatchObject({ mode: 'iptables' });
  expect(resolved({ version: '1.36' }).kubeProxy.config).not.toHaveProperty('mode');
});

test('the help that a reference page prints is read like that of a program', () => {
  const page = `<tr>
<td colspan="2">--authorization-mode strings&nbsp;&nbsp;&nbsp;&nbsp;&nbsp;Default: "AlwaysAllow"</td>
</tr>
<tr>
<td></td><td style="line-height: 130%"><p>Ordered list. Comma-delimited list of: AlwaysAllow,Node,RBAC.</p></td>
</tr>
<tr>
<td colspan="2">-h, --help</td>
</tr>
<tr>
<td></td><td style="line-height: 130%"><p>help for kube-apiserver</p></td>
</tr>
<tr>
<td colspan="2">--goaway-chance float</td>
</tr>
<tr>
<td></td><td style="line-height: 130%"><p>Chance &lt; .02<br/>A second line.</p></td>
</tr>`;
  expect(flagsIn(helpOfPage(page))).toEqual([
    ['authorization-mode', 'strings AlwaysAllow Node RBAC'],
    ['help', 'bool'],
    ['goaway-chance', 'float64'],
  ]);
});

test('a gate that is gone neither needs another one nor is needed', () => {
  const base = ['flag kubelet a bool', 'gate A +', 'gate B -', 'needs A B', 'needs B A,C'];
  expect(mergedLines(base, ['gate A +'], '- flag kubelet a # why\n+ flag kubelet b int')).toEqual([
    'gate A +',
    'flag kubelet b int',
  ]);
});
