#!/usr/bin/perl
# Opens the sockets that `muster serve` needs and replaces itself with it: Node can neither bind to an interface nor tell by which
# one a datagram came in. Where systemd does this (muster-generator), this script is not used.
#
#     perl bind-sockets.pl NODE MAIN.ts serve --interface eth1 [--interface eth2] [--http-port 8080] [...]
#
# For each interface: UDP 67 (dhcp-eth1), 4011 (pxe-eth1), 69 (tftp-eth1); once: TCP for machines (http). They are passed on as
# systemd passes sockets: LISTEN_FDS, LISTEN_FDNAMES, LISTEN_PID, descriptors from 3 on. Arguments go on unchanged.
# MUSTER_INTERFACE (separated by commas) and MUSTER_HTTP_PORT stand in for the flags.
use strict;
use warnings;
use Socket qw(PF_INET SOCK_DGRAM SOCK_STREAM SOL_SOCKET SO_BROADCAST SO_REUSEADDR SO_RCVBUF INADDR_ANY pack_sockaddr_in);
use Errno qw(EADDRINUSE EACCES EPERM ENODEV EINVAL);
use Fcntl qw(F_DUPFD);
use POSIX ();

# Linux's numbers; Perl's Socket does not have them everywhere.
use constant { SO_BINDTODEVICE => 25, SO_ATTACH_FILTER => 26, SO_RCVBUFFORCE => 33 };
# A storm of machines is powered on at once: what does not fit here is lost until they ask again, seconds later.
use constant RECEIVE_BUFFER => 8 * 1024 * 1024;
use constant FIRST => 3;
my @UDP = ( [ 'dhcp', 67, 'DHCP' ], [ 'pxe', 4011, 'PXE boot service' ], [ 'tftp', 69, 'TFTP' ] );

# Ends with a line as the command's: what is wrong and what to do, and the code of it (src/base/errors.ts).
sub fail {
    my ( $code, $message ) = @_;
    print STDERR "muster: $message ($code)\n";
    exit( $code eq 'E_USAGE' ? 2 : 1 );
}

sub slurp {
    open( my $in, '<', $_[0] ) or return '';
    local $/;
    my $text = <$in>;
    return defined $text ? $text : '';
}

# Names of this network namespace's interfaces but loopback: /proc/net follows the namespace, /sys does not always.
sub interfaces { return grep { $_ ne 'lo' } slurp('/proc/net/dev') =~ /^\s*([^\s:|]+):/mg }

# What a process is called by who started it: "muster serve", "dnsmasq", "perl wait.pl". Its own name (comm) is that of a thread.
sub program {
    my ($pid) = @_;
    my ( $name, @words ) = split /\0/, slurp("/proc/$pid/cmdline");
    if ( !defined $name ) { chomp( $name = slurp("/proc/$pid/comm") ) }
    $name =~ s{^.*/}{};
    my ($script) = grep { !/^-/ } @words;
    if ( $name =~ /^(?:node|perl|python|ruby|sh|bash)[0-9.]*$/ and defined $script ) {
        my ($verb) = $script =~ m{/cli/main\.ts$} ? grep { /^[a-z]+$/ } @words : ();
        if ( defined $verb ) { $name = "muster $verb" }
        else                 { $name .= ' ' . $script =~ s{^.*/}{}r }
    }
    return $name =~ s/[^ -~]/?/gr;
}

# Who has the port: " (dnsmasq, pid 123)", or nothing where /proc does not say.
sub holder {
    my ( $kind, $port ) = @_;
    my %inode;
    for my $line ( split /\n/, slurp("/proc/net/$kind") ) {
        my @field = split ' ', $line;
        next unless @field > 9 and $field[1] =~ /:([0-9A-F]{4})$/ and hex($1) == $port;
        next if $kind eq 'tcp' and $field[3] ne '0A';
        $inode{ $field[9] } = 1;
    }
    for my $fd ( glob '/proc/[0-9]*/fd/*' ) {
        my $to = readlink $fd or next;
        next unless $to =~ /^socket:\[([0-9]+)\]$/ and $inode{$1};
        my ($pid) = $fd =~ m{^/proc/([0-9]+)/};
        return ' by ' . program($pid) . ", pid $pid";
    }
    return '';
}

sub refused {
    my ( $what, $kind, $port, $device ) = @_;
    my $on = defined $device ? " on $device" : '';
    if ( $!{EADDRINUSE} ) {
        my $advice = defined $device ? 'stop that program or take it off this interface' : 'stop that program or choose another --http-port';
        fail( 'E_PORT_IN_USE', "$what, port $port$on: already in use" . holder( $kind, $port ) . "; $advice" );
    }
    fail('E_SOCKET_OPEN', "$what, port $port$on: not permitted; run as root, or install the units in systemd/ (make install)") if $!{EACCES} or $!{EPERM};
    fail('E_USAGE', "$what, port $port$on: there is no such interface; there are: " . ( join( ' ', interfaces() ) || 'none' ) ) if $!{ENODEV};
    fail('E_SOCKET_OPEN', "$what, port $port$on: $!");
}

# Keeps broadcasts away from a socket: a TFTP request sent to everybody is to be ignored (RFC 1123, 4.2.3.5), and Node does not say
# where a datagram was sent to. A kernel filter of four instructions: the packet's type; is it "to this host" (0)? all of it; nothing.
sub only_unicast {
    my ($socket) = @_;
    my $filter = pack 'SCCL' x 4, 0x20, 0, 0, 0xfffff004, 0x15, 0, 1, 0, 0x06, 0, 0, 0xffffffff, 0x06, 0, 0, 0;
    return setsockopt( $socket, SOL_SOCKET, SO_ATTACH_FILTER, pack( 'S x![P] P', 4, $filter ) );
}

sub udp {
    my ( $what, $port, $device ) = @_;
    socket( my $socket, PF_INET, SOCK_DGRAM, 0 ) or refused( $what, 'udp', $port, $device );
    # No SO_REUSEADDR: with it, two DHCP servers on one interface would both start and nobody would be told.
    setsockopt( $socket, SOL_SOCKET, SO_BINDTODEVICE, $device . "\0" ) or refused( $what, 'udp', $port, $device );
    setsockopt( $socket, SOL_SOCKET, SO_BROADCAST, 1 ) or refused( $what, 'udp', $port, $device );
    setsockopt( $socket, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER )
      or setsockopt( $socket, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER );
    only_unicast($socket) or refused( $what, 'udp', $port, $device ) if $what eq 'TFTP';
    bind( $socket, pack_sockaddr_in( $port, INADDR_ANY ) ) or refused( $what, 'udp', $port, $device );
    return $socket;
}

sub tcp {
    my ($port) = @_;
    socket( my $socket, PF_INET, SOCK_STREAM, 0 ) or refused( 'HTTP', 'tcp', $port );
    setsockopt( $socket, SOL_SOCKET, SO_REUSEADDR, 1 ) or refused( 'HTTP', 'tcp', $port );
    bind( $socket, pack_sockaddr_in( $port, INADDR_ANY ) ) or refused( 'HTTP', 'tcp', $port );
    listen( $socket, 4096 ) or refused( 'HTTP', 'tcp', $port );
    return $socket;
}

my @command = @ARGV;
fail('E_USAGE', 'bind-sockets.pl: usage: perl bind-sockets.pl NODE MAIN.ts serve ARGUMENTS') if @command < 3;
my ( @wanted, $port, $help );
my @rest = @command[ 3 .. $#command ];
while (@rest) {
    my $word = shift @rest;
    if    ( $word eq '--' ) { last }
    elsif ( $word =~ /^--interface(?:=(.*))?$/ ) { push @wanted, defined $1 ? $1 : @rest ? shift @rest : '' }
    elsif ( $word =~ /^--http-port(?:=(.*))?$/ ) { $port = defined $1 ? $1 : @rest ? shift @rest : '' }
    elsif ( $word eq '--help' or $word eq '-h' ) { $help = 1 }
}
if ($help) { exec {$command[0]} @command or fail('E_FILE_READ', "$command[0]: $!") }

@wanted = split /[,\s]+/, $ENV{MUSTER_INTERFACE} || '' unless @wanted;
@wanted = map { split /,/ } @wanted;
$port = $ENV{MUSTER_HTTP_PORT} || 8080 unless defined $port;
fail('E_USAGE', "--http-port $port: not a port; give a number from 1 to 65535") unless $port =~ /^[0-9]{1,5}$/ and $port >= 1 and $port <= 65535;
my @there = interfaces();
fail( 'E_USAGE', 'serve: say which interfaces to answer machines on: --interface NAME (repeatable) or MUSTER_INTERFACE; there are: '
      . ( join( ' ', @there ) || 'none' ) )
  unless @wanted;
my %seen;
@wanted = grep { !$seen{$_}++ } @wanted;
for my $name (@wanted) {
    fail( 'E_USAGE', "--interface $name: there is no such interface; there are: " . ( join( ' ', @there ) || 'none' ) )
      unless grep { $_ eq $name } @there, 'lo';
}

# Below the descriptors that are used as a stopover further down.
fail('E_USAGE', 'more than 80 interfaces; give fewer') if @wanted > 80;

$^F = 1023;    # none of these closes on exec
my ( @open, @names );
for my $name (@wanted) {
    for my $service (@UDP) {
        push @open, udp( $service->[2], $service->[1], $name );
        push @names, "$service->[0]-$name";
    }
}
push @open,  tcp($port);
push @names, 'http';

# Out of the way first, then into place from 3 on: Perl itself has this script open there.
my @aside = map {
    my $copy = fcntl( $_, F_DUPFD, 256 );
    fail('E_INTERNAL', "dup: $!") unless $copy;
    $copy + 0;
} @open;
for my $n ( 0 .. $#aside ) {
    defined POSIX::dup2( $aside[$n], FIRST + $n ) or fail('E_INTERNAL', "dup2: $!");
}
for my $fd ( FIRST + @open .. 1023 ) { POSIX::close($fd) }

$ENV{LISTEN_FDS}     = scalar @open;
$ENV{LISTEN_FDNAMES} = join ':', @names;
$ENV{LISTEN_PID}     = $$;
exec {$command[0]} @command or fail('E_FILE_READ', "$command[0]: $!");
