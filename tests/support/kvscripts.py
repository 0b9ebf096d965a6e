# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Lock scripts as client libraries send them, for EVAL; examples/kv_server/script.c knows them."""

GET = 'redis.call("get", KEYS[1])'


def conditional(then, otherwise="0"):
    """The ways in which a command for the holder of a lock is written."""
    head, _, rest = then.partition("(")
    call = "redis.call('%s', %s" % (head, rest)
    return [
        "if %s == ARGV[1] then return %s else return %s end" % (GET, call, otherwise),
        "if ARGV[1] == %s then\n  return %s\nelse\n  return %s\nend" % (GET, call, otherwise),
        "if %s == ARGV[1]\nthen\n    return %s;\nend\nreturn %s" % (GET, call, otherwise),
        "if %s == ARGV[1] then %s return 1 else return %s end" % (GET, call, otherwise),
        "local value = %s\nif value == ARGV[1] then return %s else return %s end" % (
            GET, call, otherwise),
    ]


HELD = """
    local token = redis.call('get', KEYS[1])
    if not token or token ~= ARGV[1] then
        return 0
    end
"""

# redis-py's Lock: release, reacquire, extend.
PYTHON = [
    HELD + "redis.call('del', KEYS[1])\nreturn 1",
    HELD + "redis.call('pexpire', KEYS[1], ARGV[2])\nreturn 1",
    HELD + """
        local expiration = redis.call('pttl', KEYS[1])
        if not expiration then
            expiration = 0
        end
        if expiration < 0 then
            return 0
        end

        local newttl = ARGV[2]
        if ARGV[3] == "0" then
            newttl = ARGV[2] + expiration
        end
        redis.call('pexpire', KEYS[1], newttl)
        return 1
    """,
]

# node-redlock's, on several keys: acquire, release, extend.
SEVERAL = [
    """
    -- Return 0 if an entry already exists.
    for i, key in ipairs(KEYS) do
        if redis.call("exists", key) == 1 then
            return 0
        end
    end
    for i, key in ipairs(KEYS) do redis.call("set", key, ARGV[1], "PX", ARGV[2]) end
    return #KEYS
    """,
    """
    local count = 0
    for i, key in ipairs(KEYS) do
        --[[ Only remove entries
             for *this* lock value. ]]
        if redis.call("get", key) == ARGV[1] then
            redis.pcall("del", key)
            count = count + 1
        end
    end
    return count
    """,
    """
    for i, key in ipairs(KEYS) do
        if redis.call("get", key) ~= ARGV[1] then
            return 0
        end
    end
    for i, key in ipairs(KEYS) do redis.call("set", key, ARGV[1], "PX", ARGV[2]) end
    return #KEYS
    """,
]

SINGLE = (conditional("del(KEYS[1])") + conditional("pexpire(KEYS[1], ARGV[2])") +
          conditional("expire(KEYS[1], ARGV[2])") + PYTHON + [
    conditional("DEL(KEYS[1])")[0].replace("get", "GET"),  # redsync writes them so
    "local val = %s\nif val == ARGV[1] then return redis.call('DEL', KEYS[1])\n"
    "elseif val == false then return -1 else return 0 end" % GET,
    conditional("pttl(KEYS[1])", "-3")[0], conditional("set(KEYS[1], ARGV[2])")[0],
    "local v = %s if v == ARGV[1] then return redis.call('del', KEYS[1]) end return 0" % GET,
    "local v = %s if v == ARGV[1] then redis.call('del',KEYS[1]) return 1 else return 0 end" % GET,
])
UNKNOWN = ["return 1", "", "if", "return 'a", "--[[", "return redis.call('get', KEYS[1])",
           conditional("del(KEYS[1])")[0].replace("==", "~="),
           conditional("del(KEYS[1])")[0].replace("KEYS[1]", "KEYS[2]"),
           conditional("del(KEYS[1])")[0] + " x", "a" * 5000]
