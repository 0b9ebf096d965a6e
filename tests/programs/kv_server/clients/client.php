<?php
// SPDX-License-Identifier: Apache-2.0 OR MIT
// php-redis with its defaults: client.php PORT
function check($ok, $what)
{
    if (!$ok) {
        fwrite(STDERR, "failed: $what\n");
        exit(1);
    }
}

$r = new Redis();
check($r->connect("127.0.0.1", (int)$argv[1]), "connect");
$r->flushAll();
$binary = str_repeat(implode("", array_map("chr", range(0, 255))), 50);
check($r->set("binary", $binary) && $r->get("binary") === $binary, "binary");
check($r->set("k", "1", ["nx"]) && $r->set("k", "2", ["nx", "ex" => 10]) === false, "set nx");
check($r->incrBy("k", 5) === 6 && $r->append("k", "x") === 2, "incrby, append");
check($r->mSet(["a" => 1, "b" => 2]) && $r->mGet(["a", "b", "none"]) === ["1", "2", false], "mget");
check($r->expire("a", 100) && $r->ttl("a") > 90 && $r->persist("a"), "expire");
$r->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
$keys = [];
for ($it = null; ($found = $r->scan($it)) !== false;)
    $keys = array_merge($keys, $found);
$keys = array_unique($keys);
sort($keys);
check($keys === ["a", "b", "binary", "k"], "scan");
$p = $r->pipeline();
for ($i = 0; $i < 1000; $i++)
    $p->set("p$i", $i)->get("p$i");
$got = $p->exec();
check(count($got) === 2000 && $got[1999] === "999" && $got[0] === true, "pipeline");
check($r->multi()->set("t", 5)->incr("t")->get("t")->exec() === [true, 6, "6"], "multi");
$r->watch("t");
$other = new Redis();
$other->connect("127.0.0.1", (int)$argv[1]);
$other->set("t", 50);
check($r->multi()->incr("t")->exec() === false && $r->get("t") === "50", "watch");
$release = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) " .
    "else return 0 end";
check($r->eval($release, ["t", "50"], 1) === 1, "eval");
$dump = $r->dump("binary");
check($r->restore("again", 0, $dump) && $r->get("again") === $binary, "restore");
echo "php-redis ", phpversion("redis"), " ok\n";
