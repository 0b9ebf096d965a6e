// SPDX-License-Identifier: Apache-2.0 OR MIT
// npm's ioredis with its defaults, and redlock on it: node client_ioredis.js PORT
const assert = require("assert");
const { Redis } = require("ioredis");
const Redlock = require("redlock");

async function main() {
  const r = new Redis(Number(process.argv[2]), "127.0.0.1");
  r.on("error", (e) => { console.error(e); process.exit(1); });
  await r.flushall();
  const binary = Buffer.from(Array.from({ length: 25600 }, (_, i) => i & 255));
  await r.set("binary", binary);
  assert.ok((await r.getBuffer("binary")).equals(binary));
  await r.set("k", "1");
  assert.strictEqual(await r.set("k", "2", "NX"), null);
  assert.strictEqual(await r.incrby("k", 5), 6);
  assert.deepStrictEqual(await r.mget("k", "none"), ["6", null]);
  const p = r.pipeline();
  for (let i = 0; i < 2000; i++) p.set("p" + i, i).get("p" + i);
  const got = await p.exec();
  for (let i = 0; i < 2000; i++) assert.deepStrictEqual(got[2 * i + 1], [null, String(i)]);
  assert.deepStrictEqual(await r.multi().set("t", 5).incr("t").get("t").exec(),
    [[null, "OK"], [null, 6], [null, "6"]]);
  await r.watch("t");
  const other = new Redis(Number(process.argv[2]), "127.0.0.1");
  await other.set("t", "50");
  assert.strictEqual(await r.multi().incr("t").exec(), null);
  const keys = [];
  for await (const some of r.scanStream({ match: "[tk]*" })) keys.push(...some);
  assert.deepStrictEqual([...new Set(keys)].sort(), ["k", "t"]);
  r.defineCommand("release", { numberOfKeys: 1,
    lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) " +
      "else return 0 end" });
  assert.strictEqual(await r.release("t", "x"), 0);
  assert.strictEqual(await r.release("t", "50"), 1);

  const redlock = new Redlock([r], { retryCount: 0 });
  let lock = await redlock.lock(["lock:a", "lock:b"], 20000);
  await assert.rejects(new Redlock([other], { retryCount: 0 }).lock(["lock:b"], 1000));
  lock = await lock.extend(60000);
  assert.ok((await r.pttl("lock:b")) > 30000);
  await lock.unlock();
  assert.strictEqual(await r.exists("lock:a", "lock:b"), 0);
  other.disconnect();
  r.disconnect();
  console.log("npm ioredis", require("ioredis/package.json").version, "ok");
}

main().catch((e) => { console.error(e); process.exit(1); });
