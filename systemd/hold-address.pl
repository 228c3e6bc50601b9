#!/usr/bin/perl
# Keeps the boot addresses on their interfaces for as long as the server says, and announces them.
# Node has no packet sockets, and the packaged server may not change interfaces. Runs as the unit
# muster-address@.service, or as a child of a server that is root.
#
#     perl hold-address.pl eth1=10.0.0.2/24 [...]
#
# Without arguments, MUSTER_BOOT_ADDRESS names them, separated by commas. Reads lines from standard
# input:
#     hold MS                 until the kernel has run for MS milliseconds (/proc/uptime)
# and writes lines to standard output:
#     held eth1 10.0.0.2      the address is on the interface
#     lost eth1 10.0.0.2      it was taken away
#     other eth1 10.0.0.2 52:54:00:00:00:01     this hardware uses it as well
#     failed eth1 10.0.0.2 TEXT                 why it cannot be put there
# It takes the addresses away when the time is over and when standard input ends. The kernel does so
# a little later, in case this program is paused or killed: the addresses have a lifetime there.
use strict;
use warnings;
use Socket qw(AF_INET PF_INET SOCK_DGRAM SOCK_RAW inet_aton inet_ntoa);
use Errno qw(EINTR EEXIST);

# Linux's numbers; Perl's Socket does not have them.
use constant { PF_NETLINK => 16, PF_PACKET => 17, ETH_P_ARP => 0x0806 };
use constant { SIOCGIFINDEX => 0x8933, SIOCGIFHWADDR => 0x8927 };
use constant { RTM_NEWADDR => 20, RTM_DELADDR => 21 };
use constant { NLM_REQUEST => 0x05, NLM_REPLACE => 0x100, NLM_EXCL => 0x200, NLM_CREATE => 0x400 };
use constant { REQUEST => 1, MSG_DONTWAIT => 0x40 };
my $NOBODY    = "\0" x 4;
my $BROADCAST = "\xff" x 6;

# A free address is taken after so many questions, so many milliseconds apart (RFC 5227 2.1.1, with
# shorter times: the host that had it before is gone or is taking it away).
use constant { PROBES => 3, PROBE_EVERY => 100 };
# An address that somebody uses is asked for again, and taken after this time all the same: this
# host has the right to it.
use constant { ASK_AGAIN => 200, YIELD => 2000 };
# Announcements, in milliseconds after the address was taken, and the time between later ones.
my @ANNOUNCE = ( 0, 200, 500, 1000, 2000, 5000 );
use constant ANNOUNCE_EVERY => 30_000;
# Who else announces the address is answered and told of at most so often.
use constant { DEFEND_EVERY => 1000, TELL_EVERY => 5000 };
use constant RETRY => 1000;

sub fail { print STDERR "hold-address.pl: $_[0]\n"; exit 2 }

# Milliseconds since the kernel started, also while the host slept.
sub uptime {
    open( my $in, '<', '/proc/uptime' ) or fail("/proc/uptime: $!");
    my ($seconds) = split ' ', scalar <$in>;
    return $seconds * 1000;
}

my @given = @ARGV ? @ARGV : split /[,\s]+/, $ENV{MUSTER_BOOT_ADDRESS} || '';
my @addresses = map {
    my ( $interface, $address, $prefix ) = m{^([A-Za-z0-9_.-]{1,15})=([0-9.]+)/([0-9]{1,2})$};
    my $octets = defined $prefix && $prefix <= 32 ? inet_aton($address) : undef;
    fail("\"$_\" is not like eth1=10.0.0.2/24")
      unless defined $octets and inet_ntoa($octets) eq $address;
    +{
        interface => $interface,
        address   => $address,
        octets    => $octets,
        prefix    => $prefix,
        told      => '',
    };
} @given;
fail('MUSTER_BOOT_ADDRESS names no address') unless @addresses;

$| = 1;
$SIG{PIPE} = $SIG{INT} = $SIG{HUP} = 'IGNORE';
my $ended = 0;
$SIG{TERM} = sub { $ended = 1 };

socket( my $netlink, PF_NETLINK, SOCK_RAW, 0 )   or fail("netlink: $!");
socket( my $asking,  PF_INET,    SOCK_DGRAM, 0 ) or fail("socket: $!");
my $sequence = 0;

sub attribute { return pack( 'SS', 4 + length $_[1], $_[0] ) . $_[1] }

# Adds or removes an address (rtnetlink(7)). Returns undef, or why it did not work.
sub change_address {
    my ( $one, $type, $flags, $seconds ) = @_;
    my $body = pack( 'CCCCL', AF_INET, $one->{prefix}, 0, 0, $one->{index} );
    $body .= attribute( $_, $one->{octets} ) for 1, 2;
    if ( $type == RTM_NEWADDR ) {
        my $host = $one->{prefix} > 30 ? 0 : ( 1 << ( 32 - $one->{prefix} ) ) - 1;
        $body .= attribute( 4, pack( 'N', unpack( 'N', $one->{octets} ) | $host ) ) if $host;
        $body .= attribute( 6, pack( 'L4', $seconds, $seconds, 0, 0 ) );
    }
    my $head = pack( 'LSSLL', 16 + length $body, $type, NLM_REQUEST | $flags, ++$sequence, 0 );
    send( $netlink, $head . $body, 0, pack( 'SSLL', PF_NETLINK, 0, 0, 0 ) ) or return "$!";
    for ( 1 .. 10 ) {
        defined recv( $netlink, my $answer, 4096, 0 ) or return "$!";
        my ( $kind, $of, $error ) = ( unpack( 'LSSLL l', $answer ) )[ 1, 3, 5 ];
        next unless $kind == 2 and $of == $sequence;
        return undef if $error == 0;
        $! = -$error;
        return "$!";
    }
    return 'the kernel did not answer';
}

# Opens a packet socket on the interface. Returns undef, or why that did not work.
sub open_packets {
    my ($one) = @_;
    my $request = pack( 'a16 x24', $one->{interface} );
    ioctl( $asking, SIOCGIFINDEX, $request ) or return "there is no such interface ($!)";
    $one->{index} = unpack 'x16 i', $request;
    ioctl( $asking, SIOCGIFHWADDR, $request ) or return "$!";
    $one->{mac} = unpack 'x18 a6', $request;
    my $protocol = unpack 'S', pack( 'n', ETH_P_ARP );
    socket( my $packets, PF_PACKET, SOCK_DGRAM, $protocol ) or return "$!";
    bind( $packets, pack( 'S n i x12', PF_PACKET, ETH_P_ARP, $one->{index} ) ) or return "$!";
    $one->{packets} = $packets;
    return undef;
}

# Sends an ARP request (RFC 826) for the address, from $1: nobody (a question) or the address itself
# (an announcement).
sub send_arp {
    my ( $one, $from ) = @_;
    my $packet = pack 'n n C C n a6 a4 a6 a4',
      1, 0x0800, 6, 4, REQUEST, $one->{mac}, $from, "\0" x 6, $one->{octets};
    my $to = pack 'S n i S C C a8', PF_PACKET, ETH_P_ARP, $one->{index}, 1, 0, 6, $BROADCAST;
    send( $one->{packets}, $packet, 0, $to );
}

# Tells the server about an address; the same only once.
sub report {
    my ( $one, $word, $more ) = @_;
    my $line = join ' ', $word, $one->{interface}, $one->{address}, defined $more ? $more : ();
    return if $line eq $one->{told};
    $one->{told} = $line unless $word eq 'other';
    print "$line\n";
}

my $until = 0;

# What is due for an address now, while it is to be held.
sub advance {
    my ( $one, $now ) = @_;
    return if $now < ( $one->{due} || 0 );
    if ( $one->{held} ) {
        send_arp( $one, $one->{octets} );
        my $nth = ++$one->{announced};
        $one->{due} = $nth < @ANNOUNCE ? $one->{held} + $ANNOUNCE[$nth] : $now + ANNOUNCE_EVERY;
        return;
    }
    if ( !$one->{packets} ) {
        my $fault = open_packets($one);
        if ( defined $fault ) {
            report( $one, 'failed', $fault );
            $one->{due} = $now + RETRY;
            return;
        }
        ( $one->{begun}, $one->{asked} ) = ( $now, 0 );
    }
    if ( $one->{asked} < PROBES ) {
        send_arp( $one, $NOBODY );
        $one->{asked}++;
        $one->{due} = $now + PROBE_EVERY;
        return;
    }
    my $fault = change_address( $one, RTM_NEWADDR, NLM_CREATE | NLM_EXCL, lifetime($now) );
    if ( defined $fault ) {
        $fault .= '; take it away where this host configures it' if $!{EEXIST};
        report( $one, 'failed', $fault );
        $one->{due} = $now + RETRY;
        return;
    }
    ( $one->{held}, $one->{announced}, $one->{due} ) = ( $now, 0, $now );
    report( $one, 'held' );
    advance( $one, $now );
}

# Whole seconds for which the kernel keeps an address.
sub lifetime { my $left = ( $until - $_[0] ) / 1000; return $left > 1 ? int( $left + 0.999 ) : 1 }

# A packet arrived at an address' interface.
sub hear {
    my ( $one, $now ) = @_;
    defined recv( $one->{packets}, my $packet, 2048, MSG_DONTWAIT ) or return;
    return if length $packet < 28;
    my ( $kind, $protocol, $octets, $length, undef, $mac, $from ) =
      unpack 'n n C C n a6 a4', $packet;
    return unless $kind == 1 and $protocol == 0x0800 and $octets == 6 and $length == 4;
    return if $from ne $one->{octets} or $mac eq $one->{mac};
    if ( $now >= ( $one->{telling} || 0 ) ) {
        $one->{telling} = $now + TELL_EVERY;
        report( $one, 'other', join ':', map { sprintf '%02x', $_ } unpack 'C6', $mac );
    }
    if ( !$one->{held} ) {
        return if $now >= $one->{begun} + YIELD;
        ( $one->{asked}, $one->{due} ) = ( 0, $now + ASK_AGAIN );
        return;
    }
    return if $now < ( $one->{defended} || 0 ) + DEFEND_EVERY;
    $one->{defended} = $now;
    send_arp( $one, $one->{octets} );
}

# Takes all addresses away.
sub release {
    for my $one (@addresses) {
        change_address( $one, RTM_DELADDR, 0 ) if $one->{held};
        report( $one, 'lost' ) if $one->{held};
        close $one->{packets} if $one->{packets};
        delete @$one{qw(held packets due)};
    }
    $until = 0;
}

# A line of the server.
sub order {
    my ( $line, $now ) = @_;
    return unless $line =~ /^hold ([0-9]{1,15})$/;
    return if $1 <= $now;
    $until = $1;
    for my $one ( grep { $_->{held} } @addresses ) {
        my $fault = change_address( $one, RTM_NEWADDR, NLM_CREATE | NLM_REPLACE, lifetime($now) );
        next unless defined $fault;
        report( $one, 'failed', $fault );
        close $one->{packets};
        delete @$one{qw(held packets due)};
    }
}

my $lines = '';
until ($ended) {
    my $now = uptime();
    release() if $until and $now >= $until;
    if ($until) { advance( $_, $now ) for @addresses }
    my $wake = $now + 60_000;
    if ($until) {
        for my $due ( $until, map { $_->{due} || $now } @addresses ) {
            $wake = $due if $due < $wake;
        }
    }
    my $ready = '';
    vec( $ready, fileno(STDIN), 1 ) = 1;
    vec( $ready, fileno( $_->{packets} ), 1 ) = 1 for grep { $_->{packets} } @addresses;
    my $wait = ( $wake - $now ) / 1000;
    next if select( $ready, undef, undef, $wait > 0.01 ? $wait : 0.01 ) <= 0;
    if ( vec( $ready, fileno(STDIN), 1 ) ) {
        my $count = sysread( STDIN, $lines, 4096, length $lines );
        next if !defined $count and $!{EINTR};
        last unless $count;
        order( $1, uptime() ) while $lines =~ s/^(.*)\n//;
        last if length $lines > 4096;
    }
    for my $one ( grep { $_->{packets} } @addresses ) {
        hear( $one, uptime() ) if vec( $ready, fileno( $one->{packets} ), 1 );
    }
}
release();
