#!/bin/sh
# Builds a Debian image that boots from the network into memory: kernel, initrd, root.squashfs,
# image.json.
#
#   images/debian/build.sh [--suite trixie|bookworm] [--kernel generic|cloud] [--ignition]
#       [--firmware] [--kubernetes] [--disk] [--append ARGUMENTS] [--cache DIR] [--mirror URL]
#       [--force]
#
# With --ignition, machines take their configuration by Ignition instead of cloud-init. With
# --kubernetes, the image has the packages of kubernetes.txt, for machines of clusters. With --disk,
# it is the image of a whole disk that machines install (disk.sh), whose kernel gets the arguments
# of --append; this needs root. Without
# --mirror, the host's own is used, from apt's configuration. The last line that is printed is the
# directory with the result. Its name contains the recipe's hash, so an image is built once for each
# recipe. Root builds directly, other users in user namespaces (package uidmap).
set -eu
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8

here=$(dirname "$(readlink -f "$0")")
project=$(readlink -f "$here/../..")
# shellcheck source=images/common.sh
. "$project/images/common.sh"
# shellcheck source=images/debian/disk.sh
. "$here/disk.sh"
suite=trixie
kernel=generic
config=cloud-init
firmware=''
kubernetes=''
disk=''
append=''
cache=$(images_cache "$project")
mirror=''
force=''
key_only=''

# Prints the usage above and exits.
usage() {
  sed -n '5,7p' "$0" | cut -c5- >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
    --suite) suite=${2:-} && shift ;;
    --kernel) kernel=${2:-} && shift ;;
    --ignition) config=ignition ;;
    --firmware) firmware=1 ;;
    --kubernetes) kubernetes=1 ;;
    --disk) disk=1 ;;
    --append) append=${2:-} && shift ;;
    --cache) cache=${2:-} && shift ;;
    --mirror) mirror=${2:-} && shift ;;
    --force) force=1 ;;
    --print-directory) key_only=1 ;;
    *) usage ;;
  esac
  shift
done
case $suite in
  trixie) release=13 ;;
  bookworm) release=12 ;;
  *) usage ;;
esac
case $kernel in
  generic) kernel_package=linux-image-amd64 ;;
  cloud) kernel_package=linux-image-cloud-amd64 ;;
  *) usage ;;
esac
case $disk$config,$append in
  cloud-init,?* | ignition,?* | 1ignition,*) usage ;;
esac

# Everything that the result depends on, apart from the day's state of the mirror.
recipe=$(
  cd "$project"
  {
    echo "$suite $kernel $config $firmware $kubernetes $disk $append"
    find images/common.sh images/debian src/ignition/report -type f | LC_ALL=C sort |
      while read -r file; do
        sha256sum "$file"
        stat -c %a "$file"
      done
  } | sha256sum | cut -c1-16
)
image=debian-$release${kubernetes:+-kubernetes}
[ "$config" = cloud-init ] || image=$image-$config
[ -z "$disk" ] || image=$image-disk
out=$cache/$image-$kernel-$recipe
if [ -n "$key_only" ]; then
  echo "$out"
  exit 0
fi
built "$out" "$force"
need mmdebstrap mksquashfs=squashfs-tools veritysetup=cryptsetup-bin zstd
[ "$(id -u)" = 0 ] || need newuidmap=uidmap
[ -z "$disk" ] || disk_needs

# The mirrors of the host's own release carry the image's release too.
# shellcheck source=/dev/null
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
# shellcheck disable=SC2016 # apt expands these
target_format='$(RELEASE)|$(COMPONENT)|$(REPO_URI)'
targets=$(apt-get indextargets --format "$target_format" 'Created-By: Packages' 2>/dev/null || true)
# Prints the mirror that apt uses for release $1.
from_apt() {
  echo "$targets" | awk -F'|' -v release="$1" '$1 == release && $2 == "main" { print $3; exit }'
}
[ -n "$mirror" ] || mirror=$(from_apt "$codename")
[ -n "$mirror" ] || mirror=$(from_apt stable)
security=$(from_apt "$codename-security")
if [ -z "$mirror" ]; then
  echo "build.sh: apt's configuration names no mirror for $codename; give one with --mirror URL" >&2
  exit 1
fi
components=main
firmware_packages=
if [ -n "$firmware" ]; then
  components='main non-free-firmware'
  # shellcheck disable=SC2100 # names, no arithmetic
  firmware_packages=firmware-bnx2,firmware-bnx2x,firmware-misc-nonfree,firmware-netxen
  firmware_packages=$firmware_packages,firmware-qlogic,firmware-realtek
fi

# What the host's apt must know to reach its mirror holds for the image's apt too.
apt_options=
for name in Acquire::http::Proxy Acquire::https::Proxy \
  Acquire::Check-Valid-Until Acquire::Check-Date; do
  value=
  eval "$(apt-config shell value "$name")"
  [ -z "$value" ] || apt_options="$apt_options --aptopt=$name\\ \"$value\""
done

set -- "$here/packages.txt" "$here/$config/packages.txt" ${kubernetes:+"$here/kubernetes.txt"} \
  ${disk:+"$here/disk.txt"}
packages=$(sed 's/#.*//' "$@" | awk 'NF { print $1 }' | paste -sd,)
packages=$packages,$kernel_package${firmware_packages:+,$firmware_packages}
only_builder "$out" "$force"
scratch image
started=$(date +%s)
committed=$(git -C "$project" log -1 --format=%ct -- images/debian 2>/dev/null || true)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$committed}
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(stat -c %Y "$0")}"
# The kernel's own hook would build an initrd before ours is in place; it is built once, at the end.
export INITRD=No

echo "building Debian $release ($suite, $kernel kernel) from $mirror: one to three minutes," \
  '250 MB to fetch' >&2

# A tree with the modes that the image shall have, whatever umask the checkout was made with.
tree=$work/tree
mkdir -p "$tree/etc/muster" "$tree/etc/systemd/system" "$tree/usr/share/initramfs-tools/hooks" \
  "$tree/usr/share/initramfs-tools/scripts" "$tree/etc/initramfs-tools/conf.d"
cp -r "$here/$config/root/." "$tree/"
cp "$project/src/ignition/report/muster-report.sh" "$tree/etc/muster/"
cp "$project"/src/ignition/report/*.service "$tree/etc/systemd/system/"
if [ -n "$disk" ]; then
  disk_tree "$tree" "$recipe" "$append"
else
  cp "$here/initramfs/hooks/muster" "$tree/usr/share/initramfs-tools/hooks/"
  cp "$here"/initramfs/scripts/* "$tree/usr/share/initramfs-tools/scripts/"
  # Drivers for every network card and none for disks; zstd because it unpacks fastest.
  printf '%s\n' MODULES=list BUSYBOX=y BOOT=muster COMPRESS=zstd RESUME=none \
    >"$tree/etc/initramfs-tools/conf.d/muster"
fi
chmod -R u=rwX,go=rX "$tree"
chmod 755 "$tree/etc/muster/muster-report.sh"
[ -n "$disk" ] || chmod 755 "$tree/usr/share/initramfs-tools/hooks/muster"

cat >"$work/finish.sh" <<'FINISH'
set -eu
systemctl enable systemd-networkd.service systemd-resolved.service \
  muster-configured.service muster-ready.service
# networkd waits for all links that the configuration manages; on machines with dead ports any one
# of them must be enough.
mkdir -p /etc/systemd/system/systemd-networkd-wait-online.service.d
wait_online='/usr/lib/systemd/systemd-networkd-wait-online --any --timeout=120'
printf '[Service]\nExecStart=\nExecStart=%s\n' "$wait_online" \
  >/etc/systemd/system/systemd-networkd-wait-online.service.d/muster.conf
# This generator lets sshd be reached through a hypervisor, and loads drivers for that at every boot
# and every time that units are read again.
mkdir -p /etc/systemd/system-generators
ln -s /dev/null /etc/systemd/system-generators/systemd-ssh-generator
# A system in memory never needs this work at boot.
systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
  e2scrub_reap.service fstrim.timer
# The agent configures and starts the daemons of clusters, when the machine's data disk is there.
for unit in containerd haproxy keepalived; do
  [ ! -e /usr/lib/systemd/system/$unit.service ] || systemctl disable $unit.service
done
if [ -e /usr/lib/systemd/system/muster-ssh-keys.service ]; then
  systemctl enable muster-ssh-keys.service
  systemctl mask sshd-keygen.service
fi
passwd -l root
kernel=$(ls /lib/modules)
INITRD=Yes update-initramfs -c -k "$kernel"
mv /boot/vmlinuz-* /boot/kernel
mv /boot/initrd.img-* /boot/initrd
cloud_init=$(dpkg-query -W -f '${Version}' cloud-init 2>/dev/null | sed 's/-.*//')
printf '%s\n%s\n' "$kernel" "$cloud_init" >/boot/versions
# Programs that machines of clusters may need. They go into the Image document, so that Muster can
# warn of those that are missing.
for program in curl haproxy keepalived iptables conntrack tpm2 cryptsetup; do
  if command -v "$program" >/dev/null; then
    echo "$program"
  fi
done >/boot/programs
dpkg-query -W >/usr/share/muster-packages.txt
# Each machine makes these for itself.
: >/etc/machine-id
rm -f /etc/ssh/ssh_host_* /var/lib/dbus/machine-id /etc/hostname /etc/resolv.conf \
  /var/lib/systemd/random-seed
ln -s /run/systemd/resolve/stub-resolv.conf /etc/resolv.conf
rm -rf /var/log/*.log /var/log/apt /var/cache/debconf/*-old /var/lib/dpkg/*-old \
  /var/cache/ldconfig /var/lib/cloud
rm -f /vmlinuz* /initrd.img* /finish.sh
# These two files tell units that ldconfig, sysusers, the journal's catalogue and the like have run,
# so that they are not run again at every boot.
touch /etc/.updated /var/.updated
FINISH
tar -C "$tree" --owner=0 --group=0 --numeric-owner -cf "$work/tree.tar" .

# Drivers for hardware that no server has are left out: they would be a seventh of the image, which
# each machine fetches, checks and keeps in memory. The part of media that graphics depend on stays.
for part in sound drivers/bluetooth drivers/net/wireless net/bluetooth net/mac80211 net/wireless \
  drivers/media/dvb-core drivers/media/dvb-frontends drivers/media/i2c drivers/media/pci \
  drivers/media/platform drivers/media/radio drivers/media/tuners drivers/media/usb; do
  apt_options="$apt_options '--dpkgopt=path-exclude=/*lib/modules/*/kernel/$part/*'"
done

security_line=
[ -z "$security" ] || security_line="deb $security $suite-security $components"
eval "set -- $apt_options"
# mmdebstrap calls this with the image's root directory.
cat >"$work/run-finish.sh" <<'HOOK'
#!/bin/sh
if ! chroot "$1" sh /finish.sh >"$1/finish.log" 2>&1; then
  cat "$1/finish.log" >&2
  exit 1
fi
rm "$1/finish.log"
HOOK
chmod 755 "$work/run-finish.sh"
# shellcheck disable=SC2016 # mmdebstrap's shell expands these
# mmdebstrap writes a tar file and squashfs is made from that, which needs no root.
mmdebstrap --quiet --variant=minbase --format=tar \
  --components="$components" --include="$packages" "$@" \
  --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-include=/usr/share/locale/locale.alias' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --dpkgopt='force-confold' \
  --setup-hook="tar-in $work/tree.tar /" \
  --customize-hook="copy-in $work/finish.sh /" \
  --customize-hook="$work/run-finish.sh" \
  --customize-hook="download /boot/kernel $work/kernel" \
  --customize-hook="download /boot/initrd $work/initrd" \
  --customize-hook="download /boot/versions $work/versions" \
  --customize-hook="download /boot/programs $work/programs" \
  --customize-hook='rm -rf "$1"/boot/*' \
  "$suite" - "deb $mirror $suite $components" "deb $mirror $suite-updates $components" \
  ${security_line:+"$security_line"} >"$work/root.tar"
{
  read -r kernel_version
  read -r cloud_init
} <"$work/versions"
if [ -n "$disk" ]; then
  echo "installed after $(($(date +%s) - started)) s; making the disk" >&2
  disk_image "$recipe" "$work/disk.raw"
  files=disk.raw
  parts="\"disk\": $(describe "$work/disk.raw" disk.raw)"
else
  echo "installed after $(($(date +%s) - started)) s; compressing" >&2
  # The tar file has no entry for its root, which without -root-mode would be writable by everybody.
  if ! mksquashfs - "$work/root.squashfs" -tar -root-mode 0755 -quiet -no-progress -noappend \
    -comp zstd -Xcompression-level 11 -b 256K <"$work/root.tar" 2>"$work/squash.log"
  then
    cat "$work/squash.log" >&2
    exit 1
  fi
  # The hash tree of dm-verity follows the squashfs in the same file. The salt follows from the
  # octets, so that the same octets give the same file.
  size=$(stat -c %s "$work/root.squashfs")
  salt=$(sha256sum <"$work/root.squashfs")
  salt=${salt%% *}
  tree=$(
    veritysetup format --no-superblock --hash-offset="$size" --salt="$salt" \
      "$work/root.squashfs" "$work/root.squashfs" | sed -n 's/^Root hash:[[:space:]]*//p'
  )
  verity=muster.root.verity=$((size / 4096)):$tree:$salt
  files='kernel initrd root.squashfs'
  parts="\"kernelArguments\": [\"boot=muster\", \"panic=30\", \"console=tty0\",
    \"console=ttyS0,115200n8\", \"$verity\"],
  \"kernel\": $(describe "$work/kernel" kernel),
  \"initrd\": $(describe "$work/initrd" initrd),
  \"root\": $(describe "$work/root.squashfs" root.squashfs)"
fi
cat >"$work/image.json" <<JSON
{
  "name": "$image",
  "os": "debian",
  "version": "$release",
  "suite": "$suite",
  "arch": "x86_64",
  "recipe": "$recipe",
  "configFormat": "$config",
  "kernelVersion": "$kernel_version",${cloud_init:+
  \"cloudInitVersion\": \"$cloud_init\",}
  "sourceDateEpoch": $SOURCE_DATE_EPOCH,
  "programs": [$(sed 's/.*/"&"/' "$work/programs" | paste -sd,)],
  $parts
}
JSON
mkdir -p "$out"
for file in $files; do
  cp --sparse=always "$work/$file" "$out/$file"
  chmod 644 "$out/$file"
done
# This file is written last, because its presence says that the others are complete.
install -m 644 "$work/image.json" "$out/image.json"
# Prints the name and the size of the files of the image.
sizes() {
  for file in $files; do
    printf '%s' "$1$file $(($(stat -c %s "$out/$file") / 1048576)) MiB"
    set -- ', '
  done
}
echo "built in $(($(date +%s) - started)) s: $(sizes '')" >&2
echo "$out"
