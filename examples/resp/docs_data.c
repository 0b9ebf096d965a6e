/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * COMMAND DOCS: what each command is for, and its arguments as Redis 7.0 describes them. Of an
 * argument: name, type, @ number of its key specification, = token, ^ since, ! deprecated since,
 * ? optional, + multiple, & with the token each time, and ( ) around the arguments that it
 * consists of.
 */
#include "docs.h"

static const struct resp_doc docs[] = {
    {"append", "string", "2.0.0", "Add to the end of a value", "key key @0, value string"},
    {"auth", "connection", "1.0.0", "Authenticate", "username string ^6.0.0 ?, password string"},
    {"client", "connection", "2.4.0", "Connections", ""},
    {"client|caching", "connection", "6.0.0", "Not supported",
     "mode oneof ( yes pure-token =YES, no pure-token =NO )"},
    {"client|getname", "connection", "2.6.9", "The name of this connection", ""},
    {"client|getredir", "connection", "6.0.0", "Where tracking is redirected to: nowhere", ""},
    {"client|help", "connection", "5.0.0", "Help on CLIENT", ""},
    {"client|id", "connection", "5.0.0", "The number of this connection", ""},
    {"client|info", "connection", "6.2.0", "This connection", ""},
    {"client|kill", "connection", "2.4.0", "Close connections",
     "filter oneof ( ip:port string !2.8.12, new-format oneof + ( client-id integer =ID "
     "^2.8.12 ?, normal_master_slave_pubsub oneof =TYPE ^2.8.12 ? ( normal pure-token "
     "=NORMAL, master pure-token =MASTER ^3.2.0, slave pure-token =SLAVE, replica "
     "pure-token =REPLICA ^5.0.0, pubsub pure-token =PUBSUB ), username string =USER ?, "
     "ip:port string =ADDR ?, ip:port string =LADDR ^6.2.0 ?, yes/no string =SKIPME ? ) )"},
    {"client|list", "connection", "2.4.0", "All connections",
     "normal_master_replica_pubsub oneof =TYPE ^5.0.0 ? ( normal pure-token =NORMAL, "
     "master pure-token =MASTER, replica pure-token =REPLICA, pubsub pure-token =PUBSUB "
     "), id block =ID ^6.2.0 ? ( client-id integer + )"},
    {"client|no-evict", "connection", "7.0.0", "Exempt this connection from eviction",
     "enabled oneof ( on pure-token =ON, off pure-token =OFF )"},
    {"client|pause", "connection", "2.9.50", "Suspend commands",
     "timeout integer, mode oneof ^6.2.0 ? ( write pure-token =WRITE, all pure-token =ALL "
     ")"},
    {"client|reply", "connection", "3.2.0", "Switch replies on or off",
     "on_off_skip oneof ( on pure-token =ON, off pure-token =OFF, skip pure-token =SKIP )"},
    {"client|setname", "connection", "2.6.9", "Name this connection", "connection-name string"},
    {"client|tracking", "connection", "6.0.0", "Not supported",
     "status oneof ( on pure-token =ON, off pure-token =OFF ), client-id integer "
     "=REDIRECT ?, prefix string =PREFIX ? + &, bcast pure-token =BCAST ?, optin "
     "pure-token =OPTIN ?, optout pure-token =OPTOUT ?, noloop pure-token =NOLOOP ?"},
    {"client|trackinginfo", "connection", "6.2.0", "Tracking is off", ""},
    {"client|unblock", "connection", "5.0.0", "Unblock a connection",
     "client-id integer, timeout_error oneof ? ( timeout pure-token =TIMEOUT, error "
     "pure-token =ERROR )"},
    {"client|unpause", "connection", "6.2.0", "Resume commands", ""},
    {"command", "server", "2.8.13", "Describe all commands", ""},
    {"command|count", "server", "2.8.13", "Count the commands", ""},
    {"command|docs", "server", "7.0.0", "Documentation of commands", "command-name string ? +"},
    {"command|getkeys", "server", "2.8.13", "The keys of a command line", ""},
    {"command|getkeysandflags", "server", "7.0.0",
     "The keys of a command line and how they are used", ""},
    {"command|help", "server", "5.0.0", "Help on COMMAND", ""},
    {"command|info", "server", "2.8.13", "Describe commands", "command-name string ? +"},
    {"command|list", "server", "7.0.0", "Names of commands",
     "filterby oneof =FILTERBY ? ( module-name string =MODULE, category string =ACLCAT, "
     "pattern pattern =PATTERN )"},
    {"config", "server", "2.0.0", "Settings", ""},
    {"config|get", "server", "2.0.0", "Read settings", "parameter block + ( parameter string )"},
    {"config|help", "server", "5.0.0", "Help on CONFIG", ""},
    {"config|resetstat", "server", "2.0.0", "Reset the figures of INFO", ""},
    {"config|rewrite", "server", "2.8.0", "Not supported: there is no file", ""},
    {"config|set", "server", "2.0.0", "Change settings",
     "parameter_value block + ( parameter string, value string )"},
    {"copy", "generic", "6.2.0", "Copy a key",
     "source key @0, destination key @1, destination-db integer =DB ?, replace pure-token "
     "=REPLACE ?"},
    {"dbsize", "server", "1.0.0", "Count the keys of the database", ""},
    {"decr", "string", "1.0.0", "Subtract one from a number", "key key @0"},
    {"decrby", "string", "1.0.0", "Subtract from a number", "key key @0, decrement integer"},
    {"del", "generic", "1.0.0", "Delete keys", "key key @0 +"},
    {"discard", "transactions", "2.0.0", "Drop the transaction", ""},
    {"dump", "generic", "2.6.0", "Serialize a value", "key key @0"},
    {"echo", "connection", "1.0.0", "Answer the message", "message string"},
    {"eval", "scripting", "2.6.0", "Run a lock script",
     "script string, numkeys integer, key key @0 ? +, arg string ? +"},
    {"evalsha", "scripting", "2.6.0", "Run a lock script by its SHA-1",
     "sha1 string, numkeys integer, key key @0 ? +, arg string ? +"},
    {"exec", "transactions", "1.2.0", "Run the transaction", ""},
    {"exists", "generic", "1.0.0", "Count which keys exist", "key key @0 +"},
    {"expire", "generic", "1.0.0", "Set an expiry in seconds",
     "key key @0, seconds integer, condition oneof ^7.0.0 ? ( nx pure-token =NX, xx "
     "pure-token =XX, gt pure-token =GT, lt pure-token =LT )"},
    {"expireat", "generic", "1.2.0", "Set an expiry at a Unix time in seconds",
     "key key @0, unix-time-seconds unix-time, condition oneof ^7.0.0 ? ( nx pure-token "
     "=NX, xx pure-token =XX, gt pure-token =GT, lt pure-token =LT )"},
    {"expiretime", "generic", "7.0.0", "When a key expires, in Unix seconds", "key key @0"},
    {"flushall", "server", "1.0.0", "Delete all keys of all databases",
     "async oneof ? ( async pure-token =ASYNC ^4.0.0, sync pure-token =SYNC ^6.2.0 )"},
    {"flushdb", "server", "1.0.0", "Delete all keys of the database",
     "async oneof ? ( async pure-token =ASYNC ^4.0.0, sync pure-token =SYNC ^6.2.0 )"},
    {"get", "string", "1.0.0", "Get a value", "key key @0"},
    {"getdel", "string", "6.2.0", "Get a value and delete the key", "key key @0"},
    {"getex", "string", "6.2.0", "Get a value and change its expiry",
     "key key @0, expiration oneof ? ( seconds integer =EX, milliseconds integer =PX, "
     "unix-time-seconds unix-time =EXAT, unix-time-milliseconds unix-time =PXAT, persist "
     "pure-token =PERSIST )"},
    {"getrange", "string", "2.4.0", "Get a part of a value",
     "key key @0, start integer, end integer"},
    {"getset", "string", "1.0.0", "Set a value and get the old one", "key key @0, value string"},
    {"hello", "connection", "6.0.0", "Change the protocol, authenticate, set a name",
     "arguments block ? ( protover integer, username_password block =AUTH ? ( username "
     "string, password string ), clientname string =SETNAME ? )"},
    {"incr", "string", "1.0.0", "Add one to a number", "key key @0"},
    {"incrby", "string", "1.0.0", "Add to a number", "key key @0, increment integer"},
    {"incrbyfloat", "string", "2.6.0", "Add to a floating-point number",
     "key key @0, increment double"},
    {"info", "server", "1.0.0", "Figures of the server", "section string ? +"},
    {"keys", "generic", "1.0.0", "All keys that match a pattern", "pattern pattern"},
    {"lastsave", "server", "1.0.0", "When data was saved last", ""},
    {"latency", "server", "2.8.13", "Latency figures", ""},
    {"latency|doctor", "server", "2.8.13", "A report on latency", ""},
    {"latency|graph", "server", "2.8.13", "A graph of latency events", "event string"},
    {"latency|help", "server", "2.8.13", "Help on LATENCY", ""},
    {"latency|histogram", "server", "7.0.0", "Latencies by command", "command string ? +"},
    {"latency|history", "server", "2.8.13", "Latency events of one kind", "event string"},
    {"latency|latest", "server", "2.8.13", "Latest latency events", ""},
    {"latency|reset", "server", "2.8.13", "Forget latency events", "event string ? +"},
    {"lcs", "string", "7.0.0", "Find the longest common subsequence of two values",
     "key1 key @0, key2 key @0, len pure-token =LEN ?, idx pure-token =IDX ?, len integer "
     "=MINMATCHLEN ?, withmatchlen pure-token =WITHMATCHLEN ?"},
    {"memory", "server", "4.0.0", "Memory figures", ""},
    {"memory|doctor", "server", "4.0.0", "Nothing to report", ""},
    {"memory|help", "server", "4.0.0", "Help on MEMORY", ""},
    {"memory|malloc-stats", "server", "4.0.0", "Not supported", ""},
    {"memory|purge", "server", "4.0.0", "Does nothing", ""},
    {"memory|stats", "server", "4.0.0", "Bytes of index and records", ""},
    {"memory|usage", "server", "4.0.0", "Bytes that a key takes",
     "key key @0, count integer =SAMPLES ?"},
    {"mget", "string", "1.0.0", "Get several values", "key key @0 +"},
    {"migrate", "generic", "2.6.0", "Not supported: use DUMP and RESTORE",
     "host string, port integer, key_or_empty_string oneof ( key key @0, empty_string "
     "pure-token = ), destination-db integer, timeout integer, copy pure-token =COPY "
     "^3.0.0 ?, replace pure-token =REPLACE ^3.0.0 ?, authentication oneof ? ( password "
     "string =AUTH ^4.0.7 ?, username_password block =AUTH2 ^6.0.0 ? ( username string, "
     "password string ) ), key key @1 =KEYS ^3.0.6 ? +"},
    {"move", "generic", "1.0.0", "Move a key to another database", "key key @0, db integer"},
    {"mset", "string", "1.0.1", "Set several values",
     "key_value block + ( key key @0, value string )"},
    {"msetnx", "string", "1.0.1", "Set several values if all keys are absent",
     "key_value block + ( key key @0, value string )"},
    {"multi", "transactions", "1.2.0", "Begin a transaction", ""},
    {"object", "generic", "2.2.3", "Details of a key", ""},
    {"object|encoding", "generic", "2.2.3", "How Redis would keep the value", "key key @0"},
    {"object|freq", "generic", "4.0.0", "Not supported: accesses are not counted", "key key @0"},
    {"object|help", "generic", "6.2.0", "Help on OBJECT", ""},
    {"object|idletime", "generic", "2.2.3", "Seconds since the last access", "key key @0"},
    {"object|refcount", "generic", "2.2.3", "References that Redis would count", "key key @0"},
    {"persist", "generic", "2.2.0", "Remove the expiry", "key key @0"},
    {"pexpire", "generic", "2.6.0", "Set an expiry in milliseconds",
     "key key @0, milliseconds integer, condition oneof ^7.0.0 ? ( nx pure-token =NX, xx "
     "pure-token =XX, gt pure-token =GT, lt pure-token =LT )"},
    {"pexpireat", "generic", "2.6.0", "Set an expiry at a Unix time in milliseconds",
     "key key @0, unix-time-milliseconds unix-time, condition oneof ^7.0.0 ? ( nx "
     "pure-token =NX, xx pure-token =XX, gt pure-token =GT, lt pure-token =LT )"},
    {"pexpiretime", "generic", "7.0.0", "When a key expires, in Unix milliseconds", "key key @0"},
    {"ping", "connection", "1.0.0", "Answer PONG or the message", "message string ?"},
    {"psetex", "string", "2.6.0", "Set a value that expires in milliseconds",
     "key key @0, milliseconds integer, value string"},
    {"pttl", "generic", "2.6.0", "Milliseconds until a key expires", "key key @0"},
    {"quit", "connection", "1.0.0", "Close the connection", ""},
    {"randomkey", "generic", "1.0.0", "A random key", ""},
    {"rename", "generic", "1.0.0", "Rename a key", "key key @0, newkey key @1"},
    {"renamenx", "generic", "1.0.0", "Rename a key if the new one is absent",
     "key key @0, newkey key @1"},
    {"reset", "connection", "6.2.0", "Reset the connection", ""},
    {"restore", "generic", "2.6.0", "Create a key from a serialized value",
     "key key @0, ttl integer, serialized-value string, replace pure-token =REPLACE "
     "^3.0.0 ?, absttl pure-token =ABSTTL ^5.0.0 ?, seconds integer =IDLETIME ^5.0.0 ?, "
     "frequency integer =FREQ ^5.0.0 ?"},
    {"role", "server", "2.8.12", "The server's role", ""},
    {"scan", "generic", "2.8.0", "Iterate over keys",
     "cursor integer, pattern pattern =MATCH ?, count integer =COUNT ?, type string =TYPE "
     "^6.0.0 ?"},
    {"script", "scripting", "2.6.0", "Scripts that EVALSHA finds", ""},
    {"script|exists", "scripting", "2.6.0", "Which scripts are known", "sha1 string +"},
    {"script|flush", "scripting", "2.6.0", "Forget all scripts",
     "async oneof ^6.2.0 ? ( async pure-token =ASYNC, sync pure-token =SYNC )"},
    {"script|help", "scripting", "5.0.0", "Help on SCRIPT", ""},
    {"script|kill", "scripting", "2.6.0", "An error: no script runs for long", ""},
    {"script|load", "scripting", "2.6.0", "Make a lock script known", "script string"},
    {"select", "connection", "1.0.0", "Change the database", "index integer"},
    {"set", "string", "1.0.0", "Set a value, with conditions and an expiry",
     "key key @0, value string, condition oneof ^2.6.12 ? ( nx pure-token =NX, xx "
     "pure-token =XX ), get pure-token =GET ^6.2.0 ?, expiration oneof ? ( seconds "
     "integer =EX ^2.6.12, milliseconds integer =PX ^2.6.12, unix-time-seconds unix-time "
     "=EXAT ^6.2.0, unix-time-milliseconds unix-time =PXAT ^6.2.0, keepttl pure-token "
     "=KEEPTTL ^6.0.0 )"},
    {"setex", "string", "2.0.0", "Set a value that expires in seconds",
     "key key @0, seconds integer, value string"},
    {"setnx", "string", "1.0.0", "Set a value if the key is absent", "key key @0, value string"},
    {"setrange", "string", "2.2.0", "Overwrite a part of a value",
     "key key @0, offset integer, value string"},
    {"shutdown", "server", "1.0.0", "End the server",
     "nosave_save oneof ? ( nosave pure-token =NOSAVE, save pure-token =SAVE ), now "
     "pure-token =NOW ^7.0.0 ?, force pure-token =FORCE ^7.0.0 ?, abort pure-token =ABORT "
     "^7.0.0 ?"},
    {"slowlog", "server", "2.2.12", "Slow commands", ""},
    {"slowlog|get", "server", "2.2.12", "The newest slow commands", "count integer ?"},
    {"slowlog|help", "server", "6.2.0", "Help on SLOWLOG", ""},
    {"slowlog|len", "server", "2.2.12", "How many slow commands are kept", ""},
    {"slowlog|reset", "server", "2.2.12", "Forget slow commands", ""},
    {"sort", "generic", "1.0.0", "Not supported: strings only",
     "key key @0, pattern pattern @1 =BY ?, offset_count block =LIMIT ? ( offset integer, "
     "count integer ), pattern pattern @1 =GET ? + &, order oneof ? ( asc pure-token "
     "=ASC, desc pure-token =DESC ), sorting pure-token =ALPHA ?, destination key @2 "
     "=STORE ?"},
    {"sort_ro", "generic", "7.0.0", "Not supported: strings only",
     "key key @0, pattern pattern @1 =BY ?, offset_count block =LIMIT ? ( offset integer, "
     "count integer ), pattern pattern @1 =GET ? + &, order oneof ? ( asc pure-token "
     "=ASC, desc pure-token =DESC ), sorting pure-token =ALPHA ?"},
    {"strlen", "string", "2.2.0", "Get the length of a value", "key key @0"},
    {"substr", "string", "1.0.0", "Get a part of a value",
     "key key @0, start integer, end integer"},
    {"swapdb", "server", "4.0.0", "Exchange two databases", "index1 integer, index2 integer"},
    {"time", "server", "2.6.0", "The server's clock", ""},
    {"touch", "generic", "3.2.1", "Count which keys exist, as an access", "key key @0 +"},
    {"ttl", "generic", "1.0.0", "Seconds until a key expires", "key key @0"},
    {"type", "generic", "1.0.0", "The type of a value", "key key @0"},
    {"unlink", "generic", "4.0.0", "Delete keys", "key key @0 +"},
    {"unwatch", "transactions", "2.2.0", "Forget watched keys", ""},
    {"wait", "generic", "3.0.0", "Not supported: there are no replicas",
     "numreplicas integer, timeout integer"},
    {"watch", "transactions", "2.2.0", "Make EXEC depend on keys", "key key @0 +"},
};

const struct resp_doc *resp_doc_at(uint32_t i)
{
    return i < sizeof(docs) / sizeof(docs[0]) ? &docs[i] : NULL;
}
