# SPDX-License-Identifier: Apache-2.0 OR MIT
# ruby-redis with its defaults: client.rb PORT
require "redis"

def check(ok, what)
  raise what unless ok
end

r = Redis.new(port: ARGV[0].to_i)
r.flushall
binary = (0..255).to_a.pack("C*") * 50
r.set("binary", binary)
check(r.get("binary").b == binary.b, "binary")
check(r.set("k", "1", nx: true) && !r.set("k", "2", nx: true), "set nx")
check(r.incrby("k", 5) == 6 && r.append("k", "x") == 2, "incrby, append")
check(r.mset("a", 1, "b", 2) == "OK" && r.mget("a", "b", "none") == ["1", "2", nil], "mget")
check(r.expire("a", 100) && r.ttl("a") > 90 && r.persist("a"), "expire")
check(r.scan_each(match: "*").to_a.uniq.sort == %w[a b binary k], "scan")
got = r.pipelined { |p| 1000.times { |i| p.set("p#{i}", i); p.get("p#{i}") } }
check(got == (0...1000).flat_map { |i| ["OK", i.to_s] }, "pipeline")
check(r.multi { |t| t.set("t", 5); t.incr("t"); t.get("t") } == ["OK", 6, "6"], "multi")
lost = r.watch("t") do |w|
  r.dup.set("t", 50)
  w.multi { |t| t.incr("t") }
end
check(lost.nil? && r.get("t") == "50", "watch")
check(r.eval("if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) " \
             "else return 0 end", ["t"], ["50"]) == 1, "eval")
puts "ruby-redis #{Redis::VERSION} ok"
