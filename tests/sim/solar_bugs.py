# SPDX-License-Identifier: Apache-2.0 OR MIT
"""SOLAR's bugs, for mutate.py."""
STORE = "tests/sim/solar_cluster.c"
PROGRAMS = {
    "contract": ["tests/test_solar.c", "tests/test_solar_util.c"],
    "scenes": ["tests/test_solar_scenes.c", "tests/sim/solar_world.c", STORE,
               "tests/sim/solar_guest.c", "tests/sim/solar_cipher.c"],
    "auth": ["tests/test_solar_auth.c", "tests/test_solar_util.c", "tests/sim/solar_cipher.c"],
    "tables": ["tests/test_ebs_tables.c"],
    "clock": ["tests/test_ebs_ask.c"],
    "sums": ["tests/test_ebs_sum.c", "tests/test_ebs_util.c"],
}
LATE, HOLES = ("scenes", "*late_duplicates*"), ("scenes", "*size_dependent*")
STARVED = ("scenes", "*starved*")
ASKS = ("contract", "*asks_again*")
REMOVED = ("contract", "*server_removed*")

# name, file, text, what instead, (program, filter)
BUGS = [
    ("probes are small", "lib/solar/solar_priv.h",
     "#define SNIC_SOLAR__PADDING SNIC_EBS_BLOCK_BYTES", "#define SNIC_SOLAR__PADDING 0u", HOLES),
    ("a path that greets in vain is kept", "lib/solar/path.c",
     "if (solar_send_hello(c, p)) p->misses++;", "(void)solar_send_hello(c, p);", HOLES),
    ("sequence numbers belong to all paths", "lib/solar/path.c",
     "if (any) solar_cc_loss(c, p);",
     """struct solar_path *others = c->servers[p->server].paths;
    for (uint32_t i = 0; i < c->path_slots; i++)
        while (&others[i] != p && others[i].una != others[i].next_seq &&
               solar_path_at(&others[i], others[i].una)->sent_ns < answered.sent_ns)
            solar_path_lose(c, &others[i], solar_path_at(&others[i], others[i].una));
    if (any) solar_cc_loss(c, p);""", ("scenes", "*unequal_length*")),
    ("what is sent again has the number it had", "lib/solar/send.c",
     "h.attempt = b->tries;", "h.attempt = b->tries; if (b->tries > 0) h.pn = --s->pn;", LATE),
    ("nobody asks what the server has in hand", "lib/solar/path.c",
     "p->held = 1;", "old->held_ns = 0;", ("scenes", "*slow_store*")),
    ("what is late counts as lost", "lib/solar/server.c",
     "s->late_ns = snic_min_u64(rtt_ns + rtt_ns / 4, SNIC_SOLAR__LATE_MAX);", "s->late_ns = 0;",
     STARVED),
    ("a full path is paced without a bound", "lib/solar/congestion.c",
     "return snic_min_u64(p->srtt_ns * SNIC_SOLAR__ONE / w * 4 / 5, p->c->o.rto_max_ns);",
     "return p->srtt_ns * SNIC_SOLAR__ONE / w * 4 / 5;", ("contract", "*paced_with_a_bound*")),
    ("a question that cannot be asked stays due", "lib/solar/path.c",
     "(void)solar_send_probe(c, p, 0); p->asked = p->una; p->asked_ns = c->now_ns;",
     "if (solar_send_probe(c, p, 0)) { p->asked = p->una; p->asked_ns = c->now_ns; }",
     ("scenes", "*no_train_to_ask*")),
    ("what switches say counts for nothing", "lib/solar/congestion.c",
     "cc->telemetry = in->count > 0;", "cc->telemetry = 0;", ("scenes", "*telemetry*")),
    ("a suspect server is waited for as long as others", "lib/solar/ask.c",
     "snic_ebs_ask_due(&c->asks, &r->ask, c->servers[r->server].told, c->now_ns)",
     "snic_ebs_ask_due(&c->asks, &r->ask, 0, c->now_ns)", ASKS),
    ("who asks again asks as often", "lib/ebs/ask.c",
     "(asks <= 3 ? 1u << (asks - 1) : SNIC_EBS__ASK_DOUBLE)", "1u", ASKS),
    ("everybody asks for himself", "lib/solar/ask.c",
     "snic_ebs_ask_join(&q->ask, k);", "", ASKS),
    ("a question is put once", "lib/solar/ask.c", "if (!d->map_said) continue;", "continue;", ASKS),
    ("what is not due is looked at no more", "lib/ebs/ask.c",
     "ask_look_at(s, k->due_ns); return 0;", "return 0;", ("clock",)),
    ("who is heard stays on the list", "lib/ebs/ask.c",
     "snic_link_remove(&k->link); k->asks = 0;", "k->asks = 0;", ("clock",)),
    ("the most patient one does not count", "lib/ebs/ask.c",
     "most < SNIC_EBS__ASK_MOST ? most + 1", "k->asks < SNIC_EBS__ASK_MOST ? k->asks + 1",
     ("clock",)),
    ("a number is given back while I/O waits", "lib/solar/server.c",
     "if (s->rpcs > 0 || (!forget", "if ((!forget", REMOVED),
    ("a number is given back whose server has segments", "lib/solar/server.c",
     "(!forget && solar_server_mapped(c, server, 0))", "0", REMOVED),
    ("segments stay where a number was given back", "lib/solar/server.c",
     "(void)solar_server_mapped(c, server, 1);", "", REMOVED),
    ("what is queued goes to who has the number next", "lib/solar/server.c",
     "solar_server_unsend(c, server);", "", REMOVED),
    ("gens begin anew with a number", "lib/solar/server.c",
     "solar_path_close(c, p); p->sent =", "solar_path_close(c, p); p->gen = 0; p->sent =",
     REMOVED),
    ("the connection's id is not drawn anew", "lib/solar/server.c",
     "s->mine = (uint32_t)snic_rng_next(&c->rng);", "s->mine = 4711 + s->index;", REMOVED),
    ("sealed numbers begin anew with a number", "lib/solar/server.c",
     "s->pn = snic_max_u64((uint64_t)c->o.client_epoch << 32, c->pn_used);",
     "s->pn = (uint64_t)c->o.client_epoch << 32;", ("auth", "*comes_back*")),
    ("a damaged first level hides segments", "lib/ebs/map.c",
     "for (uint32_t i = 0; i < m->chunks; i++) count += map_of_server(m, i, m->owner[i], server, "
     "forget);", "for (uint64_t i = 0; i < firsts; i++) if (m->first[i] != 0 && "
     "m->first[i] <= m->chunks) count += map_of_server(m, m->first[i] - 1, i, server, forget);",
     ("tables", "*counted_and_forgotten*")),
    ("who does something is busy still", "lib/solar/rpc.c",
     "c->servers[r->server].busy.since_ns = 0;", "", ("contract", "*busy_server*")),
    ("bursts are as large as the window", "lib/solar/send.c",
     "behind ? SNIC_SOLAR_TRAIN_MAX *", "behind ? 8 * SNIC_SOLAR_TRAIN_MAX *",
     ("contract", "*bursts*")),
    ("bursts are of one train", "lib/solar/send.c",
     "behind ? SNIC_SOLAR_TRAIN_MAX * solar_cc_interval(p) : 0", "0", ("contract", "*bursts*")),
    ("a limit is a hint", "lib/solar/disk.c",
     "if (r == SNIC_EAGAIN) { c->qos_ns", "if (r == SNIC_EAGAIN && 0) { c->qos_ns",
     ("scenes", "*limits*")),
    ("what is long is charged as one block", "lib/ebs/qos.c",
     "e.bucket[0].tokens -= (int64_t)((uint64_t)bytes << SNIC_EBS__FRACTION);",
     "e.bucket[0].tokens -= (int64_t)(UINT64_C(4096) << SNIC_EBS__FRACTION);",
     ("scenes", "*limits*")),
    ("epochs wrap", "lib/solar/init.c", "if (full.sa_epoch > 65535)",
     "if (full.sa_epoch > 65536 * 2)", ("scenes", "*epochs_end*")),
    ("what is given up is not fenced", "lib/solar/rpc.c",
     "if (!r->sent || r->op == SNIC_SOLAR_READ) {", "if (r->sent <= 1) {",
     ("scenes", "*given_up*")),
    ("what is sent again has a new version", "lib/solar/send.c",
     "solar_block_part(c, r, pkt, &h.u.block); h.u.block.op",
     """if (b->tries > 0) {
        r->wver = ++c->disks[r->disk].wver;
        b->summed = 0;
    }
    solar_block_part(c, r, pkt, &h.u.block); h.u.block.op""", LATE),
    ("a store does not compare versions", STORE,
     """if (q->wver < b->wver) return SNIC_EBS_SUPERSEDED; if (q->wver == b->wver)
        return SNIC_EBS_OK;""", "", LATE),
    ("a store does not compare generations", STORE,
     "return q->seg_gen < g->gen ? SNIC_EBS_STALE_GEN : SNIC_EBS_OK;", "return SNIC_EBS_OK;",
     ("scenes", "*dead_agents*")),
    ("blocks' checksums are xored", "include/snicstore/ebs.h",
     "return snic_crc32c_combine_4096(agg, crc);", "return agg ^ crc;", ("sums",)),
    ("checksums are xored, without the constant", "tests/test_ebs_sum.c",
     "xor_of(crc, n) ^ (n % 2 == 0 ? SNIC_EBS_CRC_ZEROS : 0)", "xor_of(crc, n)", ("sums",)),
]
