/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a shard's replica is doing, in words, and the errors of its operations. */
#include "node.h"

const char *ds_state_name(const struct snic_replica_stats *i)
{
    static const char *const states[] = {"booting",
                                         "lost its membership file",
                                         "hears no majority of the nodes",
                                         "waits for the nodes of the last membership",
                                         "is not a member",
                                         "is learning the keys",
                                         "has no lease",
                                         "serves"};

    if (i->state == SNIC_REPLICA_READING)
        return "is reading its log";
    if (i->state == SNIC_REPLICA_STOPPED)
        return "has stopped";
    return i->member.state < SNIC_COUNTOF(states) ? states[i->member.state] : "?";
}

void ds_state_put(struct ds_shard *s, struct resp_reply *reply)
{
    struct snic_replica_stats i;
    int loading;

    snic_replica_get_stats(s->replica, &i);
    loading = i.state == SNIC_REPLICA_READING ||
              (i.state == SNIC_REPLICA_RUNNING && i.member.state == SNIC_MEMBER_LEARNING);
    ds_error(reply, "%s the node does not serve: it %s (epoch %u): use another node",
             loading ? "LOADING" : "CLUSTERDOWN", ds_state_name(&i), i.member.view.epoch);
}

void ds_put_failure(struct ds_request *r, int error)
{
    struct resp_reply *out = &r->reply;

    switch (error) {
    case SNIC_ESTALE:
        ds_state_put(r->shard, out);
        break;
    case SNIC_EUNKNOWN:
        ds_error(out, "UNKNOWN outcome unknown: the node left the membership before the write was "
                      "acknowledged; the write may take effect, now or later, or not");
        break;
    case SNIC_EAGAIN:
        ds_error(out, "TRYAGAIN the node had no room for the command for 10 s; nothing was "
                      "written");
        break;
    case SNIC_ENOSPC:
        ds_error(out, "OOM no space: the log (--log-size) is full, or --keys exist: delete keys");
        break;
    case SNIC_EMSGSIZE:
        ds_error(out, "ERR the value is longer than %llu bytes (--value-max)",
                 (unsigned long long)r->shard->node->config->value_max);
        break;
    case SNIC_ECORRUPT:
        ds_error(out, "ERR another key has the same 128-bit hash as this key, which cannot be "
                      "used");
        break;
    default:
        ds_error(out, "ERR %s", snic_strerror(error));
        break;
    }
}
