#!/usr/bin/perl
# The segment's IPv6 router, as far as a rack needs one: it answers router solicitations (RFC 4861
# 4.1, 4.2) with "no address from me, no DHCPv6, no default route". Without any router iPXE waits 16
# seconds for one each time it brings up a card; with one, as most networks have, it does not wait.
# This is core Perl, because Node has no raw sockets.
#
#   router.pl INTERFACE
use strict;
use warnings;
use Socket qw(AF_INET6 SOCK_RAW SOL_SOCKET inet_pton pack_sockaddr_in6);

use constant {
    IPPROTO_IPV6         => 41,
    IPPROTO_ICMPV6       => 58,
    SO_BINDTODEVICE      => 25,
    SIOCGIFINDEX         => 0x8933,
    IPV6_MULTICAST_HOPS  => 18,
    IPV6_ADD_MEMBERSHIP  => 20,
    ROUTER_SOLICITATION  => 133,
    ROUTER_ADVERTISEMENT => 134,
};

my $interface = shift @ARGV or die "usage: router.pl INTERFACE\n";
socket my $socket, AF_INET6, SOCK_RAW, IPPROTO_ICMPV6 or die "socket: $!\n";
# /sys may be another namespace's, so the kernel is asked: struct ifreq is 16 octets of name, then
# the answer.
my $request = pack 'a16x24', $interface;
ioctl $socket, SIOCGIFINDEX, $request or die "$interface: $!\n";
my $index = unpack 'x16i', $request;
setsockopt $socket, SOL_SOCKET, SO_BINDTODEVICE, "$interface\0" or die "$interface: $!\n";
# Neighbour discovery is believed only when it cannot have come through a router (RFC 4861 6.1.2).
setsockopt $socket, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, pack('i', 255) or die "hops: $!\n";
my $all_routers = inet_pton(AF_INET6, 'ff02::2') . pack('I', $index);
setsockopt $socket, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, $all_routers
  or die "ff02::2: $!\n";

# The fields: type, code, checksum (the kernel fills it in), hop limit, flags M=0 O=0, router
# lifetime 0, reachable time, retransmission time.
my $advertisement = pack 'CCnCCnNN', ROUTER_ADVERTISEMENT, 0, 0, 64, 0, 0, 0, 0;
my $everybody     = pack_sockaddr_in6(0, inet_pton(AF_INET6, 'ff02::1'), $index);
while (defined recv $socket, my $packet, 1500, 0) {
    next unless length $packet && ord($packet) == ROUTER_SOLICITATION;
    send $socket, $advertisement, 0, $everybody or warn "send: $!\n";
}
