/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The catalog's protocol in bench/neighbours. Client number K has the disk PREFIX followed by K,
 * asks where its segments are (LOOKUP of --bytes segments of --keys), and with --writes PERCENT
 * renews its lease (RESUME); every eighth of these opens the disk PREFIX o K instead (ATTACH: the
 * block servers refuse the lease before it first). One that fills the store asks for segments that
 * may have no place and so no answer: its lookups are counted by the RESUME behind each.
 *
 * I1  A request's tag is its client's count of requests modulo NB_WINDOW, and 1: what has another
 *     tag, or is a part of a list, is no reply.
 */
#include "neighbours.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define DISKS_OF_HOSTILE 4u

static int exchange(int fd, const struct snic_control_msg *m, unsigned char *in, size_t room,
                    size_t *used, struct snic_control_msg *reply)
{
    unsigned char out[SNIC_CONTROL_SMALL];
    int size = m == NULL ? 0 : snic_control_put(out, sizeof(out), m);

    if (size < 0 || (size > 0 && send(fd, out, (size_t)size, MSG_NOSIGNAL) != size))
        return -1;
    for (;;) {
        ssize_t got;
        int n = snic_control_get(reply, in, (uint32_t)*used, SNIC_CONTROL_SMALL);

        if (n < 0)
            return -1;
        if (n > 0) {
            *used -= (size_t)n;
            memmove(in, in + n, *used);
            return 0;
        }
        got = recv(fd, in + *used, room - *used, 0);
        if (got <= 0)
            return -1;
        *used += (size_t)got;
    }
}

static void begin(struct snic_control_msg *m, enum snic_control_type type, uint32_t tag)
{
    memset(m, 0, sizeof(*m));
    m->type = (uint8_t)type;
    m->tag = tag;
}

static void name(const struct nb *n, const struct nb_peer *p, const char *what, char *out)
{
    uint64_t number = n->role == NB_HOSTILE ? p->number % DISKS_OF_HOSTILE : p->number;

    (void)snprintf(out, SNIC_CONTROL_NAME, "%s%s%llu", n->prefix, what, (unsigned long long)number);
}

int nb_catalog_begin(const struct nb *n, struct nb_peer *p, int fd)
{
    struct snic_control_msg m, r;
    unsigned char in[2 * SNIC_CONTROL_SMALL];
    size_t used = 0;

    p->opening = 0;
    begin(&m, SNIC_CONTROL_HELLO, 0);
    m.role = (uint8_t)(p->operator? SNIC_CONTROL_OPERATOR : SNIC_CONTROL_CLIENT);
    if (exchange(fd, &m, in, sizeof(in), &used, &r) != 0 || r.type != SNIC_CONTROL_WELCOME)
        return -1;
    if (p->plain || p->operator)
        return 0;
    begin(&m, SNIC_CONTROL_ATTACH, UINT32_MAX);
    m.flags = SNIC_CONTROL_TAKE;
    name(n, p, "", m.name);
    for (int r0 = exchange(fd, &m, in, sizeof(in), &used, &r);
         r0 != 0 || r.type != SNIC_CONTROL_GRANT;
         r0 = exchange(fd, NULL, in, sizeof(in), &used, &r))
        if (r0 != 0)
            return -1;
    if (r.status != 0)
        return -1;
    p->vd = r.vd;
    p->lease = r.lease;
    for (uint64_t i = 0; n->role != NB_FULL && i < n->keys; i++) { /* they have their places */
        begin(&m, SNIC_CONTROL_LOOKUP, UINT32_MAX);
        m.vd = p->vd;
        m.lease = p->lease;
        m.count = 1;
        m.item[0].segment = i;
        for (int r0 = exchange(fd, &m, in, sizeof(in), &used, &r);
             r0 != 0 || r.type != SNIC_CONTROL_MAP || r.item[0].segment != i;
             r0 = exchange(fd, NULL, in, sizeof(in), &used, &r))
            if (r0 != 0 || r.type == SNIC_CONTROL_LOST)
                return -1;
    }
    begin(&m, SNIC_CONTROL_PING, UINT32_MAX); /* after PONG, all notifications are read */
    for (int r0 = exchange(fd, &m, in, sizeof(in), &used, &r);
         r0 != 0 || r.type != SNIC_CONTROL_PONG; r0 = exchange(fd, NULL, in, sizeof(in), &used, &r))
        if (r0 != 0)
            return -1;
    return used == 0 ? 0 : -1;
}

size_t nb_catalog_put(const struct nb *n, struct nb_peer *p, unsigned char *out, uint64_t id,
                      uint64_t key)
{
    static struct snic_control_msg m;
    uint32_t tag = (uint32_t)(id >> 1);
    int size, more = 0;

    begin(&m, SNIC_CONTROL_LOOKUP, tag);
    m.vd = p->vd;
    m.lease = p->lease;
    if (p->operator) {
        m.type = SNIC_CONTROL_SEGMENTS;
        (void)snprintf(m.name, sizeof(m.name), "%s0", n->prefix);
    } else if ((id & 1) != 0 && p->opening == 0 && key % 8 == 0) {
        m.type = SNIC_CONTROL_ATTACH;
        m.flags = SNIC_CONTROL_TAKE;
        name(n, p, "o", m.name);
        p->opening = tag;
    } else if ((id & 1) != 0) {
        m.type = SNIC_CONTROL_RESUME;
    } else {
        m.count = (uint32_t)snic_min_u64(n->bytes, SNIC_CONTROL_ITEMS);
        for (uint32_t i = 0; i < m.count; i++)
            m.item[i].segment = (key + i) % n->keys;
    }
    if (n->role == NB_FULL)
        m.tag = UINT32_MAX;
    size = snic_control_put(out, SNIC_CONTROL_SMALL, &m);
    if (size > 0 && n->role == NB_FULL) {
        m.type = SNIC_CONTROL_RESUME;
        m.tag = tag;
        more = snic_control_put(out + size, SNIC_CONTROL_SMALL, &m);
    }
    if (size < 0 || more < 0)
        nb_die("cannot make a message of type %u", m.type);
    return (size_t)size + (size_t)more;
}

int64_t nb_catalog_head(struct nb_peer *p, const unsigned char *in, size_t size, uint64_t *id,
                        int *failed)
{
    static struct snic_control_msg m;
    int used = snic_control_get(&m, in, (uint32_t)size, SNIC_CONTROL_SMALL);

    *id = NB_NO_REPLY;
    if (used <= 0)
        return used;
    if (m.tag == 0 || m.tag > NB_WINDOW || m.type == SNIC_CONTROL_SEGMENT) /* I1 */
        return used;
    if (m.tag == p->opening)
        p->opening = 0;
    *id = (uint64_t)m.tag << 1;
    *failed = m.status != 0 || (m.type == SNIC_CONTROL_MAP && m.item[0].status != 0);
    return used;
}
