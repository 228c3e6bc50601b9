#!/usr/bin/perl
# A client in another language: Debian's OpenAPI::Client makes a method for each operation of the
# server's own /openapi.json, and checks what it sends. This program also checks each answer against
# the schema of its status.
#
# Usage: perl openapi-client.pl SOCKET. Reads a list of calls [OPERATION, {PARAMETERS}, {BODY}] from
# standard input, and prints all operations and a list of {status, etag, body, faults}, in JSON.
use strict;
use warnings;
use Mojo::File;
use Mojo::JSON qw(decode_json encode_json);
use Mojo::URL;
use Mojo::UserAgent;
use Mojo::Util qw(md5_sum url_escape);
use OpenAPI::Client;

# The package has no schema of OpenAPI 3.1 itself, with which the whole document would be checked.
my $directory = Mojo::File::tempdir;
written(md5_sum('https://spec.openapis.org/oas/3.1/schema/2021-05-20'), '{}');
$ENV{JSON_VALIDATOR_CACHE_PATH} = "$directory";

my $server = 'http+unix://' . url_escape($ARGV[0]);
my $served = Mojo::UserAgent->new->get("$server/openapi.json")->result->body;
my $client = OpenAPI::Client->new('file://' . written('openapi.json', $served));
$client->base_url(Mojo::URL->new($server));
my $validator = $client->validator;
my %route = map { $_->{operation_id} => $_ } $validator->routes->each;

my @answers;
for my $call (@{decode_json(join '', <STDIN>)}) {
  my ($operation, $parameters, $body) = @$call;
  my $answer = $client->call($operation, $parameters, %$body)->res;
  push @answers, {
    status => $answer->code,
    etag => $answer->headers->etag,
    body => $answer->json,
    faults => [faults($answer, @{$route{$operation}}{qw(method path)})],
  };
}
print encode_json({operations => [sort keys %route], answers => \@answers});

# Returns what is wrong with an answer to a request by the document.
sub faults {
  my ($answer, $method, $path) = @_;
  my ($type) = split /;/, $answer->headers->content_type // '';
  my $body = {exists => 1, value => $answer->json, content_type => $type};
  my $header = sub {
    my $value = $answer->headers->header($_[0]);
    return {exists => defined $value, value => $value};
  };
  my $said = {body => sub { $body }, header => $header};
  return map {"$_"} $validator->validate_response([lc $method, $path, $answer->code], $said);
}

# Writes a file of the temporary directory and returns its path.
sub written {
  my ($name, $text) = @_;
  open my $file, '>', "$directory/$name" or die "$name: $!";
  print {$file} $text;
  close $file or die "$name: $!";
  return "$directory/$name";
}
