# SPDX-License-Identifier: Apache-2.0 OR MIT
# libredis-perl with its defaults: client.pl PORT
use strict;
use warnings;
use Redis;

my $r = Redis->new(server => "127.0.0.1:$ARGV[0]");
$r->flushall;
my $binary = join("", map { chr } 0 .. 255) x 50;
$r->set(binary => $binary);
$r->get("binary") eq $binary or die "binary";
$r->set("k", 1, "NX") or die "set nx";
defined $r->set("k", 2, "NX") and die "set nx twice";
$r->incrby("k", 5) == 6 or die "incrby";
$r->mset(a => 1, b => 2);
my @got = $r->mget("a", "b", "none");
$got[0] == 1 && $got[1] == 2 && !defined $got[2] or die "mget";
$r->expire("a", 100) && $r->ttl("a") > 90 or die "expire";
join(",", sort $r->keys("*")) eq "a,b,binary,k" or die "keys";
my $count = 0;
for my $i (0 .. 999) {
    $r->set("p$i", $i, sub { $count++ });
    $r->get("p$i", sub { $count++ if $_[0] eq $i });
}
$r->wait_all_responses;
$count == 2000 or die "pipeline: $count";
$r->multi;
$r->set("t", 5);
$r->incr("t");
my @done = $r->exec;
$done[0] eq "OK" && $done[1] == 6 or die "multi";
$r->watch("t");
Redis->new(server => "127.0.0.1:$ARGV[0]")->set("t", 50);
$r->multi;
$r->incr("t");
@done = $r->exec;
$r->get("t") == 50 or die "watch";
my ($cursor, $found) = $r->scan(0, COUNT => 100000);
ref $found eq "ARRAY" or die "scan";
print "libredis-perl $Redis::VERSION ok\n";
