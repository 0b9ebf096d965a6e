# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The layers inside big modules: files that use only what stands in the layers below them.

LAYERS has one row per module, or part of one; `tidy.py rules` refuses

- a file that names a function or table of a higher layer (a call, or its address), and a circle of
  files in one layer, each with the line that closes it;
- a file that the row does not list, and a listed file that does not exist.

A header without inline functions needs no place. One that is not listed is below all others.
`tidy.py layers FOLDER` prints the uses between the files of a folder and its circles.
"""
import re

# Folder, or folder and beginning of the files' names -> layers, the lowest first.
LAYERS = {
    "lib/kvfs": [
        # format: records
        ["format.c", "format_state.c"],
        # txn: operations, their locks, reads, changes and commits; records and inodes in memory
        ["op.c", "cache.c", "inode.c", "deferred.c", "txn_memory.c", "txn_lock.c", "txn_fence.c",
         "txn.c", "txn_scan.c", "txn_commit.c", "intent.c", "intent_resolve.c"],
        # session: mounts of a store, and what the engine writes by itself
        ["session.c", "session_mount.c", "session_run.c", "numbers.c", "times.c", "orphan.c",
         "orphan_range.c", "linger.c", "locks_table.c", "locks_store.c", "locks_publish.c"],
        # ops: the requests
        ["cred.c", "entry.c", "perm.c", "acl.c", "xattr.c", "xattr_store.c", "attr.c", "open.c",
         "data_read.c", "data_change.c", "data_space.c", "data_write.c", "data_copy.c", "name.c",
         "name_remove.c", "name_rename.c", "readdir.c", "locks.c"],
        # the engine, and its check
        ["kvfs.c", "check.c"],
    ],
    "lib/kv/lmdb": [
        # LMDB's values, files and snapshots
        ["lmdb_table.h", "lmdb_table.c", "lmdb_session.c", "lmdb_priv.h"],
        ["lmdb_read.c"],
        ["lmdb_check.c", "lmdb_room.c"],
        # changes gathered in the active batch; the stages of jobs that wait for it
        ["lmdb_gather.c"],
        ["lmdb_stage.c"],
        # space and maps of objects, transactions, object bytes
        ["lmdb_space.c", "lmdb_map.c", "lmdb_io.c"],
        ["lmdb_txn.c"],
        ["lmdb_writer.c"],
        ["lmdb_share.c", "lmdb_batch.c"],
        # jobs of objects, and the requests
        ["lmdb_job.c"],
        ["lmdb_data.c"],
        ["lmdb_change.c"],
        ["lmdb_object.c", "lmdb_commit.c"],
        # the handle
        ["lmdb_mode.c"],
        ["lmdb_format.c"],
        ["lmdb.c"],
    ],
    "lib/kv/mem": [
        ["mem_slab.c"], ["mem_tree.c"], ["mem_undo.c"], ["mem_object.c"],
        ["mem_crash.c"], ["mem_run.c"], ["mem_copy.c", "mem.c"],
    ],
    "lib/kv/rados": [
        ["rados_name.c", "rados_table.c"], ["rados_call.c"], ["rados_thread.c", "rados_stripe.c"],
        ["rados_tidy.c"], ["rados_object.c"], ["rados_record.c"], ["rados.c"],
    ],
    "lib/control": [
        ["wire.c", "record.c"], ["auth.c"], ["stream.c", "catalog.c"], ["recover.c", "session.c"],
        ["overload.c", "operation.c"], ["lease.c"], ["segment_place.c"], ["segment_move.c"],
        ["disk.c"], ["disk_reissue.c"], ["dispatch.c"], ["server_session.c", "client_session.c"],
        ["operator_session.c"], ["control.c"],
        # a block server's end, a client's, an operator's
        ["agent_report.c"], ["store_owner.c", "copy_source.c", "copy_sink.c"], ["command.c"],
        ["agent.c"],
        ["client_priv.h", "lookup.c"], ["client.c"],
        ["operator.c"],
    ],
    "lib/channel": [
        ["slot.c"], ["common.c"], ["dpu_rings.c"], ["remote.c"], ["dpu.c", "host.c"],
        ["channel.c"], ["hub.c"],
    ],
    "lib/director": [
        # what all connections share: waiting lists, blocks, fairness, slots
        ["memory.c"],
        ["blocks.c", "backlog.c", "unread.c"],
        ["slot.c"],
        # one connection: its end, bytes out, the message at hand, replies in order
        ["end.c"],
        ["out.c"],
        ["part.c", "reply.c"],
        # to the host, and from it
        ["upstream_net.c", "upstream_send.c"],
        ["upstream.c"],
        ["upstream_channel.c", "offloaded.c"],
        # messages of clients, new clients; the engine, and the host's end of a channel
        ["conn.c"],
        ["accept.c"],
        ["director.c", "host.c"],
    ],
    "lib/gimbal": [
        ["bucket.c", "heap.c", "learn.c", "opts.c", "queue.c"],
        ["round.c", "congestion.c", "cost.c"],
        ["group.c"], ["cap.c", "slot.c"], ["express.c", "floor.c", "floor_credit.c", "tune.c"],
        ["tenant.c"], ["member.c"],
        ["gimbal.c", "check.c"],
    ],
    "lib/hcache": [
        ["layout.c", "replace.c", "seal.c", "job.c"],
        # the host's calls; what both sides use after a death
        ["host.c", "recover.c", "check.c"], ["host_batch.c"],
        # the engine: streams and flushes; the kinds of jobs; the frame
        ["prefetch.c", "flush.c"], ["fetch.c", "look.c", "visit.c"], ["control.c"],
    ],
    "lib/hcachelink": [
        ["message.c"], ["host_send.c"], ["host_req.c"], ["host_link.c"], ["host.c"],
        ["dpu_engine.c"], ["dpu_task.c"], ["dpu_run.c"], ["dpu_link.c"], ["dpu.c"],
    ],
    "lib/files": [
        # the image, the tables, the queue in front of the device
        ["layout.c", "table.c", "busy.c", "device.c"],
        ["record.c", "format.c", "build.c", "check.c", "extend.c"],
        # the journal; transfers; requests
        ["load.c", "checkpoint.c", "piece.c"], ["commit.c"], ["data.c", "meta.c"], ["files.c"],
        # images mounted, served, checked
        ["mount.c", "serve.c"], ["examine.c", "walk.c"],
    ],
    "lib/dma": [
        ["blocks.c", "shm_packet.c"], ["local.c", "sim.c", "shm_memory.c"], ["shm.c"],
        ["shm_open.c"],
    ],
    "lib/io": [
        ["io.c", "room.c", "disk.c"], ["mem.c", "uring.c"], ["sim_ssd.c"],
    ],
    "lib/ring": [
        ["ring_priv.h", "ring_backoff.c"], ["ring.c"],
        ["ring_producer.c", "ring_consumer.c", "ring_remote.c", "ring_response.c",
         "ring_collector.c", "ring_repair.c"],
    ],
    "lib/qos": [
        ["tenant.c", "part.c"], ["qos.c"], ["tenant_calls.c"],
    ],
    "lib/ssd": [
        ["age.c", "event.c"], ["opts.c", "die.c"], ["ssd.c"],
    ],
    "lib/replica": [
        ["wire.c", "value.c"], ["seal.c", "pace.c", "queue.c"], ["dgram.c"], ["peer.c"],
        ["answer.c", "link.c", "log.c"],
        # the engines; what comes from the network, the log and the embedder
        ["node.c"], ["link_in.c", "dgram_in.c", "log_events.c", "client.c"], ["conn.c"],
        ["replica.c"],
    ],
    "lib/store": [
        ["envelope.c"], ["index.c"], ["access.c"], ["change.c"], ["expire.c", "watch.c"],
        ["changed.c"], ["plain.c", "scan.c"], ["store.c"],
    ],
    "lib/net": [
        ["addr.c"],
        # the simulated network: paths, datagrams under way, switches; sockets; handles
        ["sim_path.c"], ["sim_packet.c"], ["sim_fabric.c", "sim_stream.c"], ["sim_hop.c"],
        ["sim_dgram.c"], ["sim.c"],
        # io_uring
        ["uring_sock.c", "uring_buf.c"], ["uring_stream.c", "uring_dgram_recv.c"],
        ["uring_dgram.c"], ["uring.c"],
    ],
    "lib/nvmefs": [
        ["sqe.c", "ops.c", "check.c"], ["host_lay.c"], ["host.c"], ["host_abort.c"],
        ["dpu_step.c"], ["dpu_data.c"], ["dpu_cmd.c"], ["dpu_look.c", "dpu_post.c"], ["dpu.c"],
    ],
    "lib/nvmesub": [
        ["opts.c", "view.c", "nvmesub_priv.h"],
        # actions; then what commands and the owner change
        ["out.c"],
        ["event.c"],
        ["host.c", "wait.c"],
        ["reserve.c"],
        ["ns.c", "record.c", "identify.c", "log.c"],
        ["conn.c"],
        ["property.c", "connect.c", "feature.c", "rule.c"],
        ["admin.c"],
        ["poll.c", "init.c", "io.c", "status.c", "check.c"],
    ],
    "lib/segments": [
        ["cache.c"], ["layout.c"],
        # requests to the device; the requests, writing home
        ["view.c", "window.c", "device.c"], ["read.c", "round.c"], ["request.c"],
        # opening: the log's records, one device, all of them
        ["recover.c"], ["format.c"], ["segments.c"],
    ],
    "lib/wal": [
        ["layout.c", "op.c"], ["batch.c", "meta.c"], ["confirm.c"], ["recover.c"],
        ["compact.c", "tail.c"], ["format.c"], ["wal.c", "check.c"],
    ],
    "lib/ebs": [
        # packets, checksums, ciphers, tables
        ["ebs_priv.h", "lookup.h", "queue.h", "queue_priv.h", "format.c", "int.c", "status.c",
         "sec.c", "openssl.c", "token.c", "opts.c", "pool.c", "lookup.c"],
        ["addr.c", "decode.c", "encode.c", "map.c", "qos.c"],
        ["sum.c"],
        # an agent's queue: turns and ends of I/Os; RPCs; disks, admission; waiters
        ["turn.c"],
        ["rpc.c"],
        ["disk.c", "queue.c"],
        ["present.c", "wait.c"],
        # one round of work, servers
        ["report.c", "server.c"],
    ],
    "lib/nvmeauth": [
        ["key.c", "message.c"], ["compute.c"], ["nvmeauth.c", "ctrl.c", "host.c", "openssl.c"],
    ],
    "lib/nvmetcp": [
        ["span.c", "pdu.c"],
        # the stream, both ways
        ["output.c"],
        ["conn.c"],
        # the target
        ["target_reply.c"],
        ["target_command.c", "target_grant.c"],
        ["target.c", "target_check.c"],
        ["target_opts.c"],
        # the host
        ["host_data.c"],
        ["host.c"],
    ],
    "lib/luna": [
        ["frame.c"],
        # the agent
        ["watch.c"],
        ["rpc.c"],
        ["conn.c", "send.c"],
        ["agent.c", "recv.c"],
        ["init.c", "check.c"],
        # the target
        ["peer.c"],
        ["answer.c", "intake.c"],
        ["target.c"],
    ],
    "lib/volume": [
        # time, lent memory; sockets and connections
        ["pump.c", "tx.c"],
        ["socket.c", "stream.c"],
        # the server
        ["grants.c"],
        ["request.c"],
        ["front_luna.c", "front_solar.c"],
        ["server_open.c"],
        ["server.c"],
        # the client
        ["disk.c", "path.c"],
        ["agent_luna.c", "agent_solar.c"],
        ["address.c", "client.c"],
    ],
    "lib/fscache": [
        ["inode.c"], ["request.c"], ["data.c", "flush.c"], ["step.c"], ["region.c"],
        ["fscache.c"],
    ],
    "lib/member": [
        ["member_priv.h", "view.c"],
        # leases and the next view, the register, when to propose
        ["lease.c", "policy.c", "config.c"],
        ["register.c"],
        ["proposer.c"],
        ["check.c", "member.c"],
    ],
    "lib/ddp": [
        # what ddpnic shares; the models, actions, timers; the table and writes in flight
        ["core.h", "core.c", "ddp_priv.h"],
        ["model.c", "emit.c", "timer.c"],
        ["record.c"],
        ["flight.c"],
        # the coordinator, then the follower and what makes up for losses
        ["scope.c"],
        ["write.c"],
        ["read.c"],
        ["cas.c", "replay.c", "purge.c"],
        ["follow.c"],
        # nodes that join, restart, and a new membership
        ["donor.c", "run.c", "restart.c"],
        ["learn.c"],
        ["epoch.c"],
        # the engine, and its check
        ["canon.c", "check.c"],
        ["ddp.c"],
    ],
    "lib/ddpnic": [
        ["model.c", "emit.c", "timer.c", "table.c"],
        # the halves: of the NIC its queues, then the coordinator, then the follower
        ["host.c", "fifo.c"],
        ["coord.c"],
        ["follow.c"],
        ["scope.c", "epoch.c"],
        # the engine, and its check
        ["canon.c", "check.c"],
        ["ddpnic.c"],
    ],
    "examples/server": [
        # what all use; then the baseline's connections; the roles, and the baseline
        ["memory.c", "remote.c"], ["config.c", "supervisor.c", "front_out.c", "front_limit.c"],
        ["image.c", "front_conn.c"], ["front.c"],
        ["dpu.c", "host.c", "monolith.c"],
    ],
    "examples/resp": [
        ["resp.c", "glob.c", "settings.c", "docs_data.c"], ["reply.c", "framing.c", "rdb.c"],
        ["arguments.c", "config.c", "docs.c", "session.c"],
    ],
    "examples/ddp_server": [
        # messages between loops; state; requests on keys; commands and their table; the rest
        ["mail.c", "error.c", "identity.c", "cluster.c"], ["ctl_link.c"], ["ctl_backup.c"],
        ["ctl.c"], ["state.c", "scope.c", "slow.c"], ["request.c", "metrics.c"],
        ["watch.c", "command_admin.c", "dispatch.c"],
        ["command_key.c", "command_durability.c", "command_client.c"],
        ["command_scan.c", "command_session.c", "command_store.c", "command_string.c",
         "command_server.c", "command_dump.c"],
        ["command_monitor.c"], ["commands.c"], ["look.c"], ["client.c"], ["listen.c", "shard.c"],
        ["main.c"],
    ],
    "examples/kv_server": [
        # formats and tables
        ["record.c", "index.c", "sha1.c", "tenant.h",
         "tenant.c", "script.c", "files_lib.c", "files_plain.c"],
        # the store: requests below, databases exchanged, segments, the log; keys, compaction
        ["store_base.c"], ["swap.c"], ["segment.c"], ["store_cache.c", "compact_victim.c"],
        ["log.c"],
        ["store.c", "store_swap.c", "compact.c", "recover.c"],
        ["store_open.c"],
        # the engine: replies, clients and their transactions, what commands share
        ["engine_out.c", "message.c", "slow.c", "stats.c"],
        ["command_args.c", "command_read.c", "command_sub.c", "transaction.c"],
        ["command_write.c", "client.c", "command.c"],
        # the commands, and their table
        ["command_session.c", "command_client.c", "command_config.c", "command_dump.c",
         "command_expire.c", "command_keys.c", "command_move.c", "command_numbers.c",
         "command_object.c", "command_ranges.c", "command_scan.c", "command_script.c",
         "command_server.c", "command_slow.c", "command_strings.c"],
        ["command_info.c", "command_docs.c", "command_transaction.c"],
        ["commands.c"],
        # running clients' messages
        ["engine_run.c"], ["engine_room.c"], ["engine.c"],
        # the roles
        ["offload_user.c", "qos.c", "roles.c"],
        ["dpu.c", "host.c", "monolith.c"], ["single.c"], ["main.c"],
    ],
    "examples/tenants": [
        ["device.c", "job_fio.c", "job_text.c", "svg.c"], ["job.c"], ["report.c"], ["run.c"],
        ["calibrate.c"], ["main.c"],
    ],
    "examples/kvfs_tool": [
        ["store.c", "fsck_scan.c"], ["tool.c", "fsck_bytes.c"], ["fsck_judge.c"],
        # the commands
        ["fsck.c", "dump.c", "load.c", "stats.c"], ["main.c"],
    ],
    "examples/page_load": [
        ["model.c"], ["request.c"], ["conn.c"], ["main.c"],
    ],
    "examples/page_server": [
        # formats and files; the log; requests, pages; the engine; the roles
        ["page.c", "wire.c", "store.c"],
        ["log.c", "shape.c", "request.c"],
        ["damage.c"], ["replay.c"], ["engine.c"],
        ["offload_user.c", "roles.c"],
        ["dpu.c", "host.c", "monolith.c"],
        ["main.c"],
    ],
    "examples/kvfs_mount": [
        ["call.c", "options.c", "store_state.c", "writers.c", "open_count.c", "helper.c",
         "notify.c"],
        ["answer.c", "validity.c", "refresh.c"],
        ["request.c"],
        # what the kernel knows, and answers to it
        ["file.c", "known.c"],
        ["reply.c"],
        # where the file system is: here, or in another process
        ["local.c", "remote_lost.c"],
        ["remote.c"],
        ["cache.c"],
        ["remote_link.c"],
        ["remote_ring.c", "remote_nvmefs.c"],
        # the other process
        ["dpu_ring.c", "dpu_nvmefs.c", "dpu_cache.c"],
        ["dpu.c"],
        # requests of the kernel
        ["ops_data.c"],
        ["ops.c"],
        ["dev.c"],
        ["session.c"],
        ["unmount.c"],
        ["main.c"],
    ],
}


def objects(code):
    """(name, line) of tables and other objects at file scope that other files may see."""
    for m in re.finditer(r"^(?!static\b|typedef\b|extern\b|return\b)[A-Za-z_][\w \t*]*?\b(\w+)"
                         r"(?:\[[^\]\n]*\])*[ \t]*=", code, flags=re.M):
        yield m.group(1), code.count("\n", 0, m.start()) + 1


def uses(sources, functions):
    """(file, line, name, file that defines it): each name that a file takes of another file.

    sources: file name -> C text without comments and literals; functions: of such a text, yields
    (name, first line, last line, is static) of each body. Declarations are not uses.
    """
    owner, bodies = {}, {}
    for path, code in sources.items():
        bodies[path] = list(functions(code))
        header = path.endswith(".h")
        names = [n for n, _, _, is_static in bodies[path] if header or not is_static]
        for name in names + [n for n, _ in objects(code)]:
            owner[name] = path
    for path, code in sources.items():
        found = set()
        inside = [(first, last) for _, first, last, _ in bodies[path]]
        tables = False  # between the braces of an initializer at file scope
        for i, line in enumerate(code.split("\n"), 1):
            body = any(first <= i <= last for first, last in inside)
            macro = re.match(r"\s*#\s*define\b|.*\\$", line)
            if not body and re.search(r"=\s*(\{|$)", line):
                tables = True
            if body or macro or tables:
                for name in re.findall(r"(?<![\w.>])[A-Za-z_]\w*", line):
                    if owner.get(name, path) != path and name not in found:
                        found.add(name)
                        yield path, i, name, owner[name]
            if tables and ";" in line:
                tables = False


def circles(edges):
    """Sets of files that reach each other, from (user, used) pairs."""
    below = {}
    for a, b in edges:
        below.setdefault(a, set()).add(b)

    def reach(a):
        seen, todo = set(), [a]
        while todo:
            for b in below.get(todo.pop(), ()):
                if b not in seen:
                    seen.add(b)
                    todo.append(b)
        return seen

    reached = {a: reach(a) for a in below}
    found = []
    for a in sorted(below):
        if a in reached[a] and not any(a in f for f in found):
            found.append({b for b in reached[a] if a in reached.get(b, ())})
    return found


def check(sources, functions, layers):
    """(file or None, line, text) of each offence of one folder against its row."""
    place, twice = {}, []
    for n, layer in enumerate(layers):
        for f in layer:
            twice += [f] if f in place else []
            place[f] = n
    for f in twice:
        yield f, 0, "in two layers"
    for f in sorted(set(place) - set(sources)):
        yield None, 0, f"{f} is in a layer of tests/layers.py and not in the folder"
    for f in sorted(set(sources) - set(place)):
        if f.endswith(".c"):
            yield f, 0, "in no layer of tests/layers.py"
    level = [u for u in uses(sources, functions)
             if u[0] in place or u[0].endswith(".h")]  # an unlisted source has its own line above
    same = []
    for user, line, name, used in level:
        mine, its = place.get(user, -1), place.get(used, -1)
        if its > mine:
            yield user, line, f"{name} is in {used}, which is in a higher layer"
        elif its == mine:
            same.append((user, line, name, used))
    for ring in circles([(u[0], u[3]) for u in same]):
        for user, line, name, used in same:
            if user in ring and used in ring:
                yield user, line, f"{name} of {used}: a circle of {' '.join(sorted(ring))}"


def describe(sources, functions):
    """Lines: each file with what it uses of which file, lower files first; then the circles."""
    found = list(uses(sources, functions))
    edges = {}
    for user, _, name, used in found:
        edges.setdefault((user, used), []).append(name)
    rings = circles(edges)
    group = {f: next((i for i, r in enumerate(rings) if f in r), f) for f in sources}
    height = dict.fromkeys(sources, 0)
    for _ in sources:
        for user, used in edges:
            if group[user] != group[used]:
                height[user] = max(height[user], height[used] + 1)
        for ring in rings:
            top = max(height[f] for f in ring)
            height.update(dict.fromkeys(ring, top))
    for f in sorted(sources, key=lambda f: (height[f], f)):
        if f.endswith(".c") or any(f in e for e in edges):
            yield f"{height[f]:2} {f}"
            for (user, used), names in sorted(edges.items()):
                if user == f:
                    back = " (circle)" if group[user] == group[used] else ""
                    yield f"     {used}{back}: {' '.join(names)}"
    for ring in rings:
        yield f"circle of {len(ring)}: {' '.join(sorted(ring))}"


LOW = "int m_low(void)\n{\n    return 1;\n}\n"
MID = "int m_mid(void)\n{\n    return m_low();\n}\nstatic int m_own(void)\n{\n    return 0;\n}\n"


def problems(functions):
    """Texts of what check() gets wrong in small examples: a test of this file."""
    layers = [["low.c"], ["mid.c", "side.c"], ["top.c"]]
    base = {"low.c": LOW, "mid.c": MID, "side.c": "int m_side(void)\n{\n    return 2;\n}\n",
            "top.c": "const struct ops m_ops = {\n    m_mid,\n};\n"}
    cases = [
        ("clean", {}, []),
        ("a call up", {"low.c": LOW.replace("1", "m_side()")}, [("low.c", 3, "higher")]),
        ("an address up", {"low.c": LOW.replace("1", "f(m_mid)")}, [("low.c", 3, "higher")]),
        ("a table up", {"side.c": "int m_side(void)\n{\n    return m_ops.a;\n}\n"},
         [("side.c", 3, "higher")]),
        ("a declaration is no use", {"low.c": "int m_mid(void);\n" + LOW}, []),
        ("a member is no use", {"low.c": LOW.replace("1", "x.m_mid + x->m_mid")}, []),
        ("a side call", {"mid.c": MID.replace("m_low", "m_side")}, []),
        ("a circle", {"mid.c": MID.replace("m_low", "m_side"),
                      "side.c": "int m_side(void)\n{\n    return m_mid();\n}\n"},
         [("mid.c", 3, "circle"), ("side.c", 3, "circle")]),
        ("a header up", {"m.h": "static inline int m_in(void)\n{\n    return m_low();\n}\n"},
         [("m.h", 3, "higher")]),
        ("a macro up", {"m.h": "#define M(x) m_low(x)\n"}, [("m.h", 1, "higher")]),
        ("prototypes", {"m.h": "int m_low(void);\n"}, []),
        ("its own static", {"low.c": LOW + "static int m_own(void)\n{\n    return 1;\n}\n"}, []),
        ("not listed", {"new.c": LOW.replace("m_low", "m_new")}, [("new.c", 0, "no layer")]),
    ]
    for name, change, expected in cases:
        got = [(f, line, text) for f, line, text in check({**base, **change}, functions, layers)]
        if [g[:2] for g in got] != [e[:2] for e in expected] or \
                any(e[2] not in g[2] for g, e in zip(got, expected)):
            yield f"{name}: {got}, not {expected}"
    gone = list(check({k: v for k, v in base.items() if k != "side.c"}, functions, layers))
    if [g[0] for g in gone] != [None] or "side.c" not in gone[0][2]:
        yield f"a file that is gone: {gone}"
    if not any("circle of 2: a.c b.c" in line for line in describe(
            {"a.c": MID.replace("m_low", "m_b"), "b.c": LOW.replace("m_low", "m_b").replace(
                "1", "m_mid()")}, functions)):
        yield "describe shows no circle"
