// SPDX-License-Identifier: Apache-2.0 OR MIT
// npm's redis with its defaults: node client_redis.js PORT
const assert = require("assert");
const { createClient } = require("redis");

async function main() {
  const r = createClient({ url: "redis://127.0.0.1:" + process.argv[2] });
  r.on("error", (e) => { console.error(e); process.exit(1); });
  await r.connect();
  await r.flushAll();
  await r.set("k", "1");
  assert.strictEqual(await r.set("k", "2", { NX: true }), null);
  assert.strictEqual(await r.incrBy("k", 5), 6);
  await r.mSet({ a: "1", b: "2" });
  assert.deepStrictEqual(await r.mGet(["a", "b", "none"]), ["1", "2", null]);
  assert.strictEqual(await r.get("none"), null);
  assert.ok(await r.expire("a", 100));
  assert.ok((await r.ttl("a")) > 90);
  const keys = [];
  for await (const some of r.scanIterator({ COUNT: 2 })) keys.push(...[].concat(some));
  assert.deepStrictEqual([...new Set(keys)].sort(), ["a", "b", "k"]);
  const many = [];
  for (let i = 0; i < 2000; i++) many.push(r.set("p" + i, String(i)), r.get("p" + i));
  const got = await Promise.all(many);
  for (let i = 0; i < 2000; i++) assert.strictEqual(got[2 * i + 1], String(i));
  assert.deepStrictEqual(await r.multi().set("t", "5").incr("t").get("t").exec(), ["OK", 6, "6"]);
  await r.watch("t");
  const other = r.duplicate();
  await other.connect();
  await other.set("t", "50");
  await assert.rejects(r.multi().incr("t").exec());
  assert.strictEqual(await r.get("t"), "50");
  const release = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) ' +
    "else return 0 end";
  assert.strictEqual(await r.eval(release, { keys: ["t"], arguments: ["x"] }), 0);
  assert.strictEqual(await r.eval(release, { keys: ["t"], arguments: ["50"] }), 1);
  await other.close();
  await r.close();
  console.log("npm redis", require("redis/package.json").version, "ok");
}

main().catch((e) => { console.error(e); process.exit(1); });
