# A client in another language: Debian's OpenAPI::Client makes a method for each operation of the
# server's own /openapi.json, and checks what it sends. This program also checks each answer against
# the schema of its status.
#
# perl openapi-client.pl SOCKET: reads a list of calls [OPERATION, {PARAMETERS}, {BODY}] from standard
# input and prints a list of {status, etag, body, faults}, both as JSON.
use strict;
use warnings;
use Mojo::File;
use Mojo::JSON qw(decode_json encode_json true);
use Mojo::URL;
use Mojo::UserAgent;
use Mojo::Util qw(md5_sum url_escape);
use OpenAPI::Client;

# The package has no schema of OpenAPI 3.1 itself, with which the whole document would be checked.
my $cache = Mojo::File::tempdir;
written(md5_sum('https://spec.openapis.org/oas/3.1/schema/2021-05-20'), '{}');
$ENV{JSON_VALIDATOR_CACHE_PATH} = "$cache";

my $at = 'http+unix://' . url_escape($ARGV[0]);
my $document = written('openapi.json', Mojo::UserAgent->new->get("$at/openapi.json")->result->body);
my $client = OpenAPI::Client->new("file://$document");
$client->base_url(Mojo::URL->new($at));
my %route = map { $_->{operation_id} => $_ } $client->validator->routes->each;

my @answers;
for my $call (@{decode_json(join '', <STDIN>)}) {
  my ($operation, $parameters, $body) = @$call;
  my $answer = $client->call($operation, $parameters, %$body)->res;
  my ($type) = split /;/, $answer->headers->content_type // '';
  my @faults = $client->validator->validate_response(
    [lc $route{$operation}{method}, $route{$operation}{path}, $answer->code],
    {
      body => sub { {exists => true, value => $answer->json, content_type => $type} },
      header => sub { my $value = $answer->headers->header($_[0]); {exists => defined $value, value => $value} },
    }
  );
  push @answers,
    {status => $answer->code, etag => $answer->headers->etag, body => $answer->json, faults => [map {"$_"} @faults]};
}
print encode_json({operations => [sort keys %route], answers => \@answers});

# Writes a file of the temporary directory and returns its path.
sub written {
  my ($name, $text) = @_;
  open my $file, '>', "$cache/$name" or die "$name: $!";
  print {$file} $text;
  close $file or die "$name: $!";
  return "$cache/$name";
}
