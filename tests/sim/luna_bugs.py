# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LUNA's bugs, in the engine and in volume, which puts it on sockets, for mutate.py."""
STORE = "tests/sim/luna_cluster.c"
ENGINE = ["tests/test_luna.c", "tests/test_luna_util.c"]
REMOVED = ("luna", "*server_removed*")
PROGRAMS = {
    "luna": ENGINE,
    "edges": ["tests/test_luna_edges.c", "tests/test_luna_util.c"],
    "stream": ["tests/test_luna_stream.c", "tests/test_luna_util.c"],
    "sim": ["tests/test_luna_sim.c", "tests/sim/luna_world.c", "tests/sim/luna_stream.c", STORE,
            "tests/sim/luna_guest.c"],
    "volume": ["tests/test_volume.c", "tests/support/volfix.c"],
    "volume_luna": ["tests/test_volume_luna.c", "tests/support/volfix.c"],
    "volume_sim": ["tests/test_volume_sim.c", "tests/support/volfix.c",
                   "tests/sim/solar_cipher.c"],
}
ENVIRONMENT = {"SNIC_SIM_COUNT": "150"}
LIVES, VOLUMES = ("sim", "many"), ("volume_sim", "many_luna")

# name, file, text, what instead, (program, filter)
BUGS = [
    ("a store does not compare versions", STORE,
     """if (q->wver < b->wver) return SNIC_EBS_SUPERSEDED; if (q->wver == b->wver)
        return SNIC_EBS_OK;""", "", LIVES),
    ("a store does not compare generations", STORE,
     "return q->seg_gen < g->gen ? SNIC_EBS_STALE_GEN : SNIC_EBS_OK;", "return SNIC_EBS_OK;",
     ("sim", "--seed", "29", "many")), # a life in which it matters
    ("a store does not remember fences", STORE,
     "if (q->wver < g->fence) return SNIC_EBS_FENCED;", "", ("sim", "--seed", "258", "many")),
    ("what is sent again has a new version", "lib/luna/send.c",
     "h->attempt = r->tries;", """h->attempt = r->tries;
    if (r->tries > 0 && snic_ebs_io_writes(r->q.op))
        ((struct luna_rpc *)r)->q.wver = ++c->q.disks[r->q.disk].wver;""", LIVES),
    ("what is given up is not fenced", "lib/luna/rpc.c",
     "if (!r->q.sent || r->q.op == SNIC_EBS_IO_READ) {", "if (r->q.sent <= 1) {",
     ("luna", "*given_up*")),
    ("a fence does not wait for smaller versions", "lib/ebs/rpc.c",
     "return ebs_rpc_hopes(q, r) ? 0 : copies;", "return copies;",
     ("luna", "*fence*")),
    ("a header that lies in two pieces is taken as it is", "lib/luna/frame.c",
     "in->have += take; *data += take; *size -= take; return in->have == want;",
     "in->have += take; *data += take; *size -= take; return take > 0;", ("stream", "*cut*")),
    ("a block that lies in two pieces begins anew", "lib/luna/intake.c",
     "if (!luna_in_gather(&n->in, n->block, SNIC_EBS_BLOCK_BYTES, data, size)) return 0;",
     """if (!luna_in_gather(&n->in, n->block, SNIC_EBS_BLOCK_BYTES, data, size)) {
        n->in.have = n->in.have > 4000 ? 0 : n->in.have;
        return 0;
    }""", ("stream", "*cut*")),
    ("frames that are missing are not missed", "lib/luna/frame.c",
     "if (in->h.path_seq != in->seq + 1) return SNIC_EPROTO;", "", ("stream",)),
    ("a suspect server is waited for as long as others", "lib/ebs/wait.c",
     "snic_ebs_ask_due(&q->asks, &r->ask, q->loads[r->server].told, q->now_ns)",
     "snic_ebs_ask_due(&q->asks, &r->ask, 0, q->now_ns)",
     ("luna", "*asks_again*")),
    ("who asks again asks as often", "lib/ebs/ask.c",
     "(asks <= 3 ? 1u << (asks - 1) : SNIC_EBS__ASK_DOUBLE)", "1u", ("luna", "*asks_again*")),
    ("a number is given back while I/O waits", "lib/luna/conn.c",
     "if (s->load->rpcs > 0 || (!forget", "if ((!forget",
     REMOVED),
    ("a number is given back whose server has segments", "lib/luna/conn.c",
     "(!forget && snic_ebs_queue_mapped(&c->q, server, 0) != 0)", "0",
     REMOVED),
    ("segments stay where a number was given back", "lib/luna/conn.c",
     "(void)snic_ebs_queue_mapped(&c->q, server, 1);", "",
     REMOVED),
    ("connections stay when a number is given back", "lib/luna/conn.c",
     "if (n->state >= SNIC_LUNA_CONNECTING) luna_conn_end(c, n, SNIC_ECANCELED, 1);", "",
     REMOVED),
    ("gens begin anew with a number", "lib/luna/conn.c",
     "n->state = SNIC_LUNA_UNUSED; n->srtt_ns", "n->state = SNIC_LUNA_UNUSED; n->gen = 0; "
     "n->srtt_ns", REMOVED),
    ("who does something is busy still", "lib/luna/rpc.c",
     "snic_ebs_busy_over(&c->q.loads[r->q.server].busy);", "",
     ("luna", "*busy_server*")),
    ("a promise that is refused says nothing of the store", "lib/luna/recv.c",
     "snic_ebs_busy_failed(&c->q.loads[r->q.server].busy, c->q.now_ns);", ";",
     ("edges", "*failed_store*")),
    ("a store that promises has failed still", "lib/luna/recv.c",
     "snic_ebs_busy_over(&c->q.loads[r->q.server].busy);", ";",
     ("edges", "*failed_store*")),
    ("what waits is as old as its I/O", "lib/ebs/wait.c",
     "out->since_ns = r->made_ns;", "out->since_ns = r->io->admitted_ns;",
     ("edges", "*as_old_as*")),
    ("what has no place waits for a server", "lib/ebs/wait.c",
     "out->place = r->where == SNIC_EBS_RPC_PARKED;", "out->place = 0;",
     ("edges", "*disk_waits*")),
    ("a disk whose entry of limits is damaged has none", "lib/ebs/queue.c",
     "if (r == SNIC_ECORRUPT) {", "if (r == SNIC_EPROTO) {",
     ("stream", "*limits_entry*")),
    ("wrong answers are counted for the RPC, not for its blocks", "lib/luna/rpc.c",
     "uint32_t i = luna_lowest(left);", "uint32_t i = 0;", ("stream", "*wrong_once*")),
    ("wrong answers of another place count", "lib/luna/rpc.c",
     "memset(r->wrong, 0, sizeof(r->wrong)); /* of another place they say nothing */", "",
     ("stream", "*wrong_often*")),
    ("credit is ignored", "lib/luna/send.c",
     "return r->q.op == SNIC_EBS_IO_READ || n->write_out == 0 || n->write_out < n->credit;",
     "return 1;",
     ("luna", "*credit*")),
    ("answers are matched without generation", "lib/luna/recv.c",
     "b->seg_gen != r->q.seg_gen || b->vd_id", "b->vd_id",
     ("luna", "*older_place*")),
    ("data go where they were wanted in an earlier turn", "lib/luna/recv.c",
     "r->q.id == n->rpc_id && r->turn == n->turn &&", "r->q.id == n->rpc_id &&",
     ("luna", "*moved_while_data*")),
    ("what the server stored is not compared", "lib/luna/recv.c",
     "b->srv_crc != luna_in_agg(r, h->pkt_id, b->blk_cnt)", "0", ("luna", "*stored_otherwise*")),
    ("a block's checksum is not compared", "lib/luna/intake.c",
     "int good = crc == snic_get_be32(in->list + (size_t)4 * block);", "int good = 1;",
     ("stream", "*flipped*")),
    ("epochs wrap", "lib/ebs/disk.c",
     "if (full.sa_epoch > 65535)", "if (full.sa_epoch > 65536 * 2)",
     ("luna", "*options*")),
    ("an I/O is done while the network has its blocks", "lib/ebs/rpc.c",
     "snic_ebs_rpc_move(r, &q->outs, SNIC_EBS_RPC_ENDED); if (r->refs == 0) "
     "ebs_rpc_release(q, r);", "snic_ebs_rpc_move(r, &q->outs, SNIC_EBS_RPC_ENDED); r->refs = 0; "
     "ebs_rpc_release(q, r);",
     ("luna", "*sends_are_back*")),
    ("silence is not watched", "lib/luna/conn.c",
     "if (n->state < SNIC_LUNA_CONNECTING || (c->o.flags & SNIC_LUNA_PAPER) != 0) return;",
     "return;",
     ("luna", "*silent_replayed*")),
    ("silence is the end of a connection with PAPER, too", "lib/luna/conn.c",
     "if (n->state < SNIC_LUNA_CONNECTING || (c->o.flags & SNIC_LUNA_PAPER) != 0) return;",
     "if (n->state < SNIC_LUNA_CONNECTING) return;", ("volume_luna", "*paper*")),
    ("a frame of another epoch is taken", "lib/luna/intake.c",
     """h->path_gen != n->path_gen || h->srv_epoch != t->o.srv_epoch)""",
     "h->path_gen != n->path_gen)", ("stream",)),
    ("a client that does not read is kept", "lib/luna/target.c",
     "o->lent_ns = t->now_ns;", "o->lent_ns = t->now_ns + (UINT64_C(1) << 50);",
     ("volume_luna", "*deaf*")),
    ("writes are answered before they are durable", "lib/volume/request.c",
     "int r = snic_segments_submit(s->store, &op->req); if (r == 0) return; "
     "for (uint32_t i = 0;",
     """int r = snic_segments_submit(s->store, &op->req);
    if (r == 0) {
        for (uint32_t i = 0; i < op->count; i++)
            request_answer(s, &op->q[i], SNIC_EBS_OK);
        op->count = 0;
        return;
    }
    for (uint32_t i = 0;""", VOLUMES),
    ("leases are not looked at", "lib/volume/request.c", "if (lease < g.gen >> 16) {", "if (0) {",
     ("volume", "*lease*_luna")),
    ("a disk may use another's segment", "lib/volume/request.c", "if (q->w.vd_id != g.vd_id ||",
     "if (", ("volume_luna", "*another_disk*")),
    ("the server's own segment is served", "lib/volume/request.c",
     "if (q->w.seg_id == SNIC_VOLUME_META ||", "if (", ("volume_luna", "*own_segment*")),
    ("a cut block is overwritten before the store has it", "lib/volume/front_luna.c",
     "if (q.luna.data != NULL && shown >= size)", "if (0)", VOLUMES),
    ("what waits for room is dropped", "lib/volume/front_luna.c",
     "return p->waits || r == 0 ? at : size;", "return size;",
     ("volume_luna", "*server_full*")),
    ("a buffer is put back before the store has its blocks", "lib/volume/front_luna.c",
     "volume_request_flush(s); p->waits = r == SNIC_EAGAIN;", "p->waits = r == SNIC_EAGAIN;",
     VOLUMES),
    ("blocks that were read are used again while they leave", "lib/volume/request.c",
     "op->trains = (uint32_t)r; if (r == 0) request_free(&s->reads, op);",
     "op->trains = (uint32_t)r; request_free(&s->reads, op);", VOLUMES),
]
