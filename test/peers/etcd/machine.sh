#!/bin/sh
# A machine for tests of the founding: a root file system in memory with the host's programs, one
# data disk as vda, a service manager of 100 lines, and the agent. Runs as the first process of new
# namespaces. Killing it is like cutting the machine's power: everything in memory is lost.
#
#     machine.sh ROOT FIRST DISK SECTORS TOOLS
#
# It is started in the repository, which the machine sees as /repo.
#
# FIRST: directory with the files of the first configuration. DISK: MAJOR:MINOR of the data disk,
# or `none`. TOOLS: directory of systemctl and the cluster's programs.
set -eu
root=$1
first=$2
disk=$3
sectors=$4
tools=$5
repository=$PWD

mount --make-rprivate /
mount -t tmpfs -o mode=755,size=1g tmpfs "$root"
cd "$root"
mkdir -p usr proc sys/block dev etc/systemd/system var/lib/muster var/lib/etcd var/tmp
mkdir -p run/muster run/service tmp root tools opt repo
# What kubelet requires of the kernel, and a test's host may lack.
mkdir -p sys/fs/cgroup sys/module/overlay sys/module/br_netfilter
touch sys/fs/cgroup/cgroup.controllers
mount --bind /usr usr
for name in bin sbin lib lib64; do
  [ ! -L "/$name" ] || ln -s "$(readlink "/$name")" "$name"
done
mount --bind "$tools" tools
mount --bind "$repository" repo
mount -t proc proc proc
cp -R "$first/." .
cp /etc/passwd /etc/group etc/
[ ! -d /etc/ssl ] || cp -R /etc/ssl etc/ssl
[ ! -d /etc/alternatives ] || cp -R /etc/alternatives etc/alternatives
cp /etc/ld.so.cache etc/ 2>/dev/null || :
[ ! -d /etc/ld.so.conf.d ] || cp -R /etc/ld.so.conf.d etc/
for device in null:1:3 zero:1:5 random:1:8 urandom:1:9 tty:5:0; do
  name=${device%%:*}
  numbers=${device#*:}
  mknod -m 666 "dev/$name" c "${numbers%:*}" "${numbers#*:}"
done
ln -s /proc/self/fd dev/fd
# A kernel of its own, as far as the agent looks at it.
[ ! -e kernel/boot_id ] || mount --bind kernel/boot_id proc/sys/kernel/random/boot_id
[ ! -e kernel/cmdline ] || mount --bind kernel/cmdline proc/cmdline
if [ "$disk" != none ]; then
  mknod -m 600 dev/vda b "${disk%:*}" "${disk#*:}"
  mkdir -p sys/block/vda
  echo "$disk" >sys/block/vda/dev
  echo "$sectors" >sys/block/vda/size
  echo 0 >sys/block/vda/ro
  echo data >sys/block/vda/serial
fi
# Where agents install programs.
mount -t tmpfs -o mode=755,size=64m tmpfs usr/local/bin
path=/usr/local/bin:/tools:/usr/sbin:/usr/bin:/sbin:/bin
exec chroot . /usr/bin/env -i PATH=$path HOME=/root LC_ALL=C /bin/sh -c '
  while [ ! -e /run/reboot ]; do
    sh /etc/muster/muster-start.sh >>/run/agent.log 2>&1 || :
    sleep 1
  done'
