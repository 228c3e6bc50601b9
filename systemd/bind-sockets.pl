#!/usr/bin/perl
# Opens the sockets that `muster serve` needs and replaces itself with it. Node can neither bind a
# socket to an interface nor tell on which interface a datagram arrived. Where systemd opens the
# sockets (muster-generator), this script is not used.
#
#     perl bind-sockets.pl NODE ENTRY serve --interface eth1 [--interface eth2] \
#         [--http-port 8080] [...]
#
# For each interface it opens UDP 67 (dhcp-eth1), 4011 (pxe-eth1) and 69 (tftp-eth1), and once TCP
# for machines (http). They are passed on as systemd passes sockets: LISTEN_FDS, LISTEN_FDNAMES,
# LISTEN_PID, descriptors from 3 on. Arguments are passed on unchanged. MUSTER_INTERFACE (separated
# by commas) and MUSTER_HTTP_PORT replace the flags.
use strict;
use warnings;
use Socket qw(
  PF_INET SOCK_DGRAM SOCK_STREAM SOL_SOCKET SO_BROADCAST SO_REUSEADDR SO_RCVBUF INADDR_ANY
  pack_sockaddr_in
);
use Errno qw(EADDRINUSE EACCES EPERM ENODEV EINVAL);
use Fcntl qw(F_DUPFD);
use POSIX ();

# Linux's numbers; Perl's Socket does not have them everywhere.
use constant { SO_BINDTODEVICE => 25, SO_ATTACH_FILTER => 26, SO_RCVBUFFORCE => 33 };
use constant { PIDFD_OPEN => 434, PIDFD_GETFD => 438 };

# When a storm of machines is powered on at once, a request that does not fit here is lost until the
# machine asks again, seconds later.
use constant RECEIVE_BUFFER => 8 * 1024 * 1024;
use constant FIRST => 3;
my @UDP = ( [ 'dhcp', 67, 'DHCP' ], [ 'pxe', 4011, 'PXE boot service' ], [ 'tftp', 69, 'TFTP' ] );

# Prints one line as the command does, what is wrong and what to do, with code $_[0]
# (src/base/errors.ts), and exits.
sub fail {
    my ( $code, $message ) = @_;
    print STDERR "muster: $message ($code)\n";
    exit( $code eq 'E_USAGE' ? 2 : 1 );
}

# Returns the text of a file, or '' if it cannot be read.
sub slurp {
    open( my $in, '<', $_[0] ) or return '';
    local $/;
    my $text = <$in>;
    return defined $text ? $text : '';
}

# Returns the names of this network namespace's interfaces without loopback. /proc/net follows the
# namespace, /sys does not always.
sub interfaces { return grep { $_ ne 'lo' } slurp('/proc/net/dev') =~ /^\s*([^\s:|]+):/mg }

# Returns the interfaces for a message: "eth0 eth1", or "none".
sub interface_list { return join( ' ', interfaces() ) || 'none' }

# Returns what a person calls process $pid: "muster serve", "dnsmasq", "perl bind-sockets.pl". Its
# comm is only the name of a thread.
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

# Returns the inodes of the sockets that are bound to a port, as the keys of a hash. TCP sockets
# count only while they listen (state 0A).
sub inodes_of_port {
    my ( $kind, $port ) = @_;
    my %inode;
    for my $line ( split /\n/, slurp("/proc/net/$kind") ) {
        my @field = split ' ', $line;
        next unless @field > 9 and $field[1] =~ /:([0-9A-F]{4})$/ and hex($1) == $port;
        next if $kind eq 'tcp' and $field[3] ne '0A';
        $inode{ $field[9] } = 1;
    }
    return %inode;
}

# Returns the interface that a socket of another process is bound to, '' if it is bound to none, or
# undef if the kernel does not tell (before Linux 5.6, or without the right to trace the process).
# /proc/net does not show it, so the socket itself is asked, through a copy of the descriptor.
sub device_of {
    my ( $pid, $descriptor ) = @_;
    my $process = syscall( PIDFD_OPEN, $pid + 0, 0 );
    return undef if $process < 0;
    my $copy = syscall( PIDFD_GETFD, $process, $descriptor + 0, 0 );
    POSIX::close($process);
    return undef if $copy < 0;
    open( my $socket, '+<&=', $copy ) or return undef;
    my $device = getsockopt( $socket, SOL_SOCKET, SO_BINDTODEVICE );
    return defined $device ? $device =~ s/\0.*//sr : undef;
}

# Returns who has a port on a device (TCP: on any), as " by dnsmasq, pid 123", or '' where /proc
# does not tell. This process has the same port on other interfaces, and so may other programs:
# neither is in the way.
sub holder {
    my ( $kind, $port, $device ) = @_;
    my %inode = inodes_of_port( $kind, $port );
    for my $path ( glob '/proc/[0-9]*/fd/*' ) {
        my $target = readlink $path or next;
        next unless $target =~ /^socket:\[([0-9]+)\]$/ and $inode{$1};
        my ( $pid, $descriptor ) = $path =~ m{^/proc/([0-9]+)/fd/([0-9]+)$} or next;
        next if $pid == $$;
        my $bound = defined $device ? device_of( $pid, $descriptor ) : undef;
        next if defined $bound and $bound ne '' and $bound ne $device;
        return ' by ' . program($pid) . ", pid $pid";
    }
    return '';
}

# Fails because a call on a socket failed with $!: says which service, port and interface, why, and
# what to do.
sub socket_failed {
    my ( $what, $kind, $port, $device ) = @_;
    my $where = "$what, port $port" . ( defined $device ? " on $device" : '' );
    if ( $!{EADDRINUSE} ) {
        my $other = defined $device ? 'take it off this interface' : 'choose another --http-port';
        my $taken = "$where: already in use" . holder( $kind, $port, $device );
        fail( 'E_PORT_IN_USE', "$taken; stop that program or $other" );
    }
    if ( $!{EACCES} or $!{EPERM} ) {
        my $advice = 'run as root, or install the units in systemd/ (make install)';
        fail( 'E_SOCKET_OPEN', "$where: not permitted; $advice" );
    }
    if ( $!{ENODEV} ) {
        fail( 'E_USAGE', "$where: there is no such interface; there are: " . interface_list() );
    }
    fail( 'E_SOCKET_OPEN', "$where: $!" );
}

# Keeps broadcasts away from a socket: a TFTP request that was sent to everybody must be ignored
# (RFC 1123, 4.2.3.5), and Node does not say where a datagram was sent to. The kernel filter has
# four instructions: load the packet's type; if it is "to this host" (0), accept all of it; else
# accept nothing.
sub only_unicast {
    my ($socket) = @_;
    my @load   = ( 0x20, 0, 0, 0xfffff004 );
    my @test   = ( 0x15, 0, 1, 0 );
    my @accept = ( 0x06, 0, 0, 0xffffffff );
    my @drop   = ( 0x06, 0, 0, 0 );
    my $filter = pack 'SCCL' x 4, @load, @test, @accept, @drop;
    return setsockopt( $socket, SOL_SOCKET, SO_ATTACH_FILTER, pack( 'S x![P] P', 4, $filter ) );
}

# Returns a UDP socket for service $what that is bound to port and interface. Without SO_REUSEADDR:
# with it, two DHCP servers on one interface would both start, and nobody would notice.
sub udp {
    my ( $what, $port, $device ) = @_;
    my @place = ( $what, 'udp', $port, $device );
    socket( my $socket, PF_INET, SOCK_DGRAM, 0 ) or socket_failed(@place);
    setsockopt( $socket, SOL_SOCKET, SO_BINDTODEVICE, $device . "\0" ) or socket_failed(@place);
    setsockopt( $socket, SOL_SOCKET, SO_BROADCAST, 1 ) or socket_failed(@place);
    setsockopt( $socket, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER )
      or setsockopt( $socket, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER );
    only_unicast($socket) or socket_failed(@place) if $what eq 'TFTP';
    bind( $socket, pack_sockaddr_in( $port, INADDR_ANY ) ) or socket_failed(@place);
    return $socket;
}

# Returns a TCP socket that listens at a port, on every interface.
sub tcp {
    my ($port) = @_;
    my @place = ( 'HTTP', 'tcp', $port );
    socket( my $socket, PF_INET, SOCK_STREAM, 0 ) or socket_failed(@place);
    setsockopt( $socket, SOL_SOCKET, SO_REUSEADDR, 1 ) or socket_failed(@place);
    bind( $socket, pack_sockaddr_in( $port, INADDR_ANY ) ) or socket_failed(@place);
    listen( $socket, 4096 ) or socket_failed(@place);
    return $socket;
}

my @command = @ARGV;
if ( @command < 3 ) {
    fail( 'E_USAGE', 'bind-sockets.pl: usage: perl bind-sockets.pl NODE ENTRY serve ARGUMENTS' );
}
my ( @wanted, $port, $help );
my @rest = @command[ 3 .. $#command ];
while (@rest) {
    my $word = shift @rest;
    if ( $word eq '--' ) { last }
    elsif ( $word =~ /^--interface(?:=(.*))?$/ ) {
        push @wanted, defined $1 ? $1 : @rest ? shift @rest : '';
    }
    elsif ( $word =~ /^--http-port(?:=(.*))?$/ ) {
        $port = defined $1 ? $1 : @rest ? shift @rest : '';
    }
    elsif ( $word eq '--help' or $word eq '-h' ) { $help = 1 }
    elsif ( $word =~ /^(--interfaces|--iface|--nic|-i)(?:=|$)/ ) {
        fail( 'E_USAGE', "unknown option '$1'; did you mean --interface?" );
    }
}
if ($help) { exec {$command[0]} @command or fail( 'E_FILE_READ', "$command[0]: $!" ) }

@wanted = split /[,\s]+/, $ENV{MUSTER_INTERFACE} || '' unless @wanted;
@wanted = map { split /,/ } @wanted;
$port = $ENV{MUSTER_HTTP_PORT} || 8080 unless defined $port;
unless ( $port =~ /^[0-9]{1,5}$/ and $port >= 1 and $port <= 65535 ) {
    fail( 'E_USAGE', "--http-port $port: not a port; give a number from 1 to 65535" );
}
unless (@wanted) {
    for my $misspelt ( grep { exists $ENV{$_} } qw(MUSTER_INTERFACES MUSTER_IFACE) ) {
        fail( 'E_USAGE', "serve: $misspelt is no setting; did you mean MUSTER_INTERFACE?" );
    }
    my $task  = 'say which interfaces to answer machines on';
    my $flags = '--interface NAME (repeatable) or MUSTER_INTERFACE';
    fail( 'E_USAGE', "serve: $task: $flags; there are: " . interface_list() );
}
my %seen;
@wanted = grep { !$seen{$_}++ } @wanted;
for my $name (@wanted) {
    next if grep { $_ eq $name } interfaces(), 'lo';
    fail( 'E_USAGE',
        "--interface $name: there is no such interface; there are: " . interface_list() );
}

# The descriptors stay below those that hold the copies further down.
fail( 'E_USAGE', 'more than 80 interfaces; give fewer' ) if @wanted > 80;

$^F = 1023;    # no descriptor up to this closes on exec
my ( @open, @names );
for my $name (@wanted) {
    for my $service (@UDP) {
        push @open, udp( $service->[2], $service->[1], $name );
        push @names, "$service->[0]-$name";
    }
}
push @open,  tcp($port);
push @names, 'http';

# First copied out of the way, then put into place from 3 on: Perl itself has this script open
# there.
my @aside = map {
    my $copy = fcntl( $_, F_DUPFD, 256 );
    fail( 'E_INTERNAL', "dup: $!" ) unless $copy;
    $copy + 0;
} @open;
for my $n ( 0 .. $#aside ) {
    defined POSIX::dup2( $aside[$n], FIRST + $n ) or fail( 'E_INTERNAL', "dup2: $!" );
}
for my $fd ( FIRST + @open .. 1023 ) { POSIX::close($fd) }

$ENV{LISTEN_FDS}     = scalar @open;
$ENV{LISTEN_FDNAMES} = join ':', @names;
$ENV{LISTEN_PID}     = $$;
exec {$command[0]} @command or fail( 'E_FILE_READ', "$command[0]: $!" );
