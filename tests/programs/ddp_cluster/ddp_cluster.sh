#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# ddp_cluster.sh PROGRAM
#
# The messages of ddp_cluster for first-time users and for scripts with mistakes; and
# whether its README.md shows what it prints.
set -u
program=$1
root=$(cd "$(dirname "$0")/../../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

bad() {
    echo "ddp_cluster.sh: $1"
    failed=1
}

# try CODE TEXT [ARGUMENT...]: standard input is the script; it ends with CODE and prints TEXT.
try() {
    code=$1 text=$2
    shift 2
    "$program" "$@" >"$work/out" 2>&1
    rc=$?
    [ $rc = "$code" ] || bad "exit code $rc, not $code: $* ($(tail -n 1 "$work/out"))"
    grep -qF -- "$text" "$work/out" || bad "'$text' is not said: $* ($(tail -n 1 "$work/out"))"
}

# For each malformed line the syntax is printed, nothing is done, the exit code is 1.
while IFS='|' read -r line text; do
    printf '%s\nget 0 x\n' "$line" | try 1 "$text"
    grep -q 'get 0 x: no such file, directory' "$work/out" || bad "something was done: $line"
done <<'END'
frobnicate|"help" lists the commands
put|usage: put NODE
put 0 x|usage: put NODE
put 0 x two words|usage: put NODE
put 3 x v|usage: put NODE
put -1 x v|usage: put NODE
put 0 seventeen-bytes-k v|key 'seventeen-bytes-k' is too long: 16 bytes at most
get 0 x y|usage: get NODE
cas 0 x old|usage: cas NODE
persist 0|persist needs --model scope
crash|usage: crash
crash everybody|usage: crash
restart 0x1|usage: restart
partition 0 0|usage: partition
partition 0 1 oneway|usage: partition
heal all|usage: heal
run|usage: run
run -1|usage: run
run 1s|usage: run
run 99999999999999999999999|usage: run
trace maybe|usage: trace
show me|usage: show
1 2 3 4 5 6 7 8 9 10|"help" lists the commands
END
{ head -c 600 /dev/zero | tr '\0' a; printf '\nget 0 x\n'; } | try 1 'line is too long'
grep -q 'get 0 x: no such file, directory, key or id' "$work/out" || bad "nothing after a long line"

# And what is one, whatever ends its line.
printf '# words\n\n  help\t\r\nrun 1 # ms\nput 1 sixteen-bytes-k_ v\nget 2 sixteen-bytes-k_' |
    try 0 'get 2 sixteen-bytes-k_: v'
printf 'quit\nfrobnicate\n' | try 0 '> quit'
# The script ends while operations are in flight.
printf 'put 1 k v &\nput 2 k w &\nget 0 k &\n' | try 0 '> get 0 k &'
printf 'put 1 k v &\nquit\n' | try 0 '> quit'
try 0 'partition A B [one-way]' --help </dev/null
try 2 "unknown option '--frobnicate' (usage:" --frobnicate </dev/null
try 2 "one argument too many: 'two'" one two </dev/null
try 1 "cannot open script '$work/none': No such file" "$work/none"
try 1 'cannot read the script: Is a directory' "$work"
for nodes in 0 8 70 x 3x ''; do
    try 2 "--nodes: '$nodes' is not a number between 1 and 7" --nodes "$nodes" </dev/null
done
try 2 "--model: 'fast' is not one of synch" --model fast </dev/null
try 2 'witness' --nodes 1 --witness 0 </dev/null
try 2 'witness' --nodes 3 --witness 3 </dev/null
try 2 "--witness: 'last' is not a number between 0 and 6" --witness last </dev/null
try 2 "--disk-us: 'soon' is not a number between 0 and 1000000" --disk-us soon </dev/null
for nodes in 1 7; do
    echo 'put 0 x v' | try 0 'put 0 x v: done' --nodes $nodes
done

# The trace in examples/ddp_cluster/README.md is the first write of write.script, line by line.
manual=$root/examples/ddp_cluster/README.md
sed -n '/-> 1,2   INV    x 1.2.0 = hello/,/^```/p' "$manual" | grep -v '^```' >"$work/readme"
lines=$(wc -l <"$work/readme")
"$program" --model strict "$root/examples/ddp_cluster/write.script" | grep -v '^> ' |
    head -n "$lines" >"$work/printed"
[ "$lines" -ge 10 ] || bad "README.md shows no trace"
diff -u "$work/readme" "$work/printed" || bad "README.md shows something else"
exit $failed
