#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# protos.sh FROM TO: etcd's API as plain proto3. The files of golang-etcd-server-dev carry options
# for Go's code generator and for a gateway, whose definitions no C++ program needs.
set -eu
plain() {
    sed -e '/import "gogoproto/d' -e '/import "google\/api/d' -e '/^option (gogoproto/d' \
        -e 's/ *\[(gogoproto[^]]*\]//' -e 's#import "etcd/.*/#import "#' "$1" |
        awk '/option \(google.api.http\)/ { skip = 1 }
            !skip { print }
            skip && /};/ { skip = 0 }' >"$2"
}
mkdir -p "$2"
plain "$1/etcdserver/etcdserverpb/rpc.proto" "$2/rpc.proto"
plain "$1/mvcc/mvccpb/kv.proto" "$2/kv.proto"
plain "$1/auth/authpb/auth.proto" "$2/auth.proto"
