/**
 * The CA certificates of a site on systems with Ignition, which has no setting for them. Ignition
 * itself trusts them while it fetches files; a unit then adds them to those of the system.
 */
import type { IgnitionUnit } from './ignition-types.ts';
import type { PlainConfig, PlainFile } from './secrets.ts';

/** Where a system keeps CA certificates that an administrator adds. */
const directoryOf = (os: string): string =>
  os === 'flatcar' ? '/etc/ssl/certs' : '/etc/pki/ca-trust/source/anchors';

type Authorities = Pick<PlainConfig, 'caCertificates'>;

/** One file for each text of certificates. */
export const authorityFiles = ({ caCertificates = [] }: Authorities, os: string): readonly PlainFile[] =>
  caCertificates.map((content, n) => ({
    path: `${directoryOf(os)}/muster-site-${n + 1}.pem`,
    mode: '0644',
    content,
  }));

/** The unit that makes programs see these files, before any of them starts; none without files. */
export const authorityUnits = ({ caCertificates = [] }: Authorities): readonly IgnitionUnit[] =>
  caCertificates.length === 0
    ? []
    : [
        {
          name: 'muster-site-authorities.service',
          enabled: true,
          contents: `[Unit]
Description=Adds the CA certificates of the site to those of the system
DefaultDependencies=no
After=local-fs.target systemd-tmpfiles-setup.service update-ca-certificates.service
Before=basic.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'if command -v update-ca-trust >/dev/null; then update-ca-trust extract; else update-ca-certificates; fi'

[Install]
WantedBy=basic.target
`,
        },
      ];
