/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The commands of `ctl`, in the target. */
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char tg_commands[] =
    "  show                       subsystems, hosts, namespaces, controllers, tenants\n"
    "  show config                the configuration as --config has it\n"
    "  show stats                 traffic and latencies of each host, state of each device\n"
    "  namespace add NQN [ID] file=PATH|memory=BYTES [ssd=PROFILE] [size=BYTES] [read-only]\n"
    "    [uuid=UUID] [group=N]\n"
    "  namespace add NQN [ID] solar=ADDRESS:PORT disk=NUMBER size=BYTES [epoch=N]\n"
    "    [uuid=UUID] [group=N]    a virtual disk of a block server\n"
    "                             ID: the lowest that is free; a missing file is made\n"
    "  namespace remove NQN ID    when its last I/O has ended; its file stays\n"
    "  namespace resize NQN ID BYTES\n"
    "                             a file grows with it, and is not cut\n"
    "  subsystem add NQN [serial=TEXT]\n"
    "  subsystem remove NQN       one without namespaces; its connections end\n"
    "  host allow NQN HOSTNQN|any [from=ADDRESS[/BITS],...]\n"
    "                             or allow it from other addresses than before\n"
    "  host deny NQN HOSTNQN|any  its connections end\n"
    "  ana NQN GROUP PORT optimized|non-optimized|inaccessible|lost|changing\n"
    "                             the access state of an ANA group at a port\n"
    "  weight HOSTNQN N           the host's share of each device, 1 to 256 (needs --fair)\n"
    "  cap HOSTNQN [bytes=N] [iops=N]\n"
    "                             most of each device in a second; 0 or none: no cap\n"
    "  floor HOSTNQN [bytes=N] [iops=N]\n"
    "                             least of each device in a second, not above its cap\n"
    "  group set NAME [weight=N] [bytes=N] [iops=N] [floor-bytes=N] [floor-iops=N]\n"
    "                             a group of hosts, or what its hosts have together: weight,\n"
    "                             most, least (needs --fair)\n"
    "  group remove NAME          one without hosts\n"
    "  member HOSTNQN NAME|none   the host's group; its own weight, cap and floor hold inside it\n"
    "  reload                     read --auth-keys again: who has no secret there now is denied;\n"
    "                             a changed one counts for connections from now on\n"
    "  save [FILE]                write the configuration, to FILE instead of --config";

static struct tg_namespace *removing; /* TG_WAIT */
static struct tg_subsystem *leaving;

/* ---- show ---- */

void tg_show_name(const char *name, char *out, size_t size)
{
    (void)snprintf(out, size, "%s", name);
    for (char *p = out; *p != 0; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

static void show_controllers(struct tg_text *out, const struct tg_subsystem *s)
{
    const struct snic_nvmesub *engine = snic_nvmet_engine(tg_target(), (uint32_t)s->number);
    struct snic_nvmesub_ctrl_status c;
    char name[SNIC_NVME_NQN_BYTES];
    for (uint32_t i = 0; i < tg.connections * tg.loops; i++) {
        if (snic_nvmesub_get_ctrl(engine, i, &c) != 0)
            continue;
        tg_show_name(c.hostnqn, name, sizeof(name));
        tg_text_add(out, "  controller %u: host %s, port %u, %u I/O queues%s\n", c.cntlid, name,
                    c.port, c.queues, c.ending ? ", ending" : "");
    }
}

static void show_namespace(struct tg_text *out, const struct tg_subsystem *s,
                           const struct tg_namespace *ns)
{
    const struct snic_nvmesub *engine = snic_nvmet_engine(tg_target(), (uint32_t)s->number);
    struct snic_nvmesub_ns_status n;
    if (snic_nvmesub_get_ns(engine, ns->nsid, &n) != 0)
        return;
    tg_text_add(out, "  namespace %" PRIu32 ": %s, %" PRIu64 " bytes, blocks of %u, group %u%s%s",
                ns->nsid, tg_device_name(ns), n.blocks << n.shift, 1U << n.shift, n.group,
                n.read_only ? ", read-only" : "", n.removing ? ", being removed" : "");
    if (n.registrants > 0)
        tg_text_add(out, ", %u registrants%s%s", n.registrants, n.rtype != 0 ? ", reserved" : "",
                    n.ptpl ? ", persistent" : "");
    tg_text_add(out, "\n");
}

static void show(struct tg_text *out)
{
    char at[160];
    struct snic_net_addr a;
    for (uint32_t i = 0; i < tg.listens; i++)
        if (snic_nvmet_listen_addr(tg_target(), i, &a) == 0) {
            (void)snic_net_addr_format(&a, at, sizeof(at));
            tg_text_add(out, "port %u: %s\n", i, at);
        }
    for (uint32_t i = 0; i < TG_SUBSYSTEMS; i++) {
        const struct tg_subsystem *s = &tg.subs[i];
        if (s->nqn[0] == 0 || s->number < 0)
            continue;
        tg_text_add(out, "subsystem %s: serial %s%s\n", s->nqn, s->serial,
                    s->any ? ", any host" : "");
        for (uint32_t k = 0; k < s->host_count; k++)
            tg_text_add(out, "  host %s%s\n", s->hosts[k].nqn,
                        s->hosts[k].from_count > 0 ? ", from some addresses only" : "");
        for (uint32_t k = 1; k <= tg.namespaces; k++)
            if (tg_namespace_find(s, k) != NULL)
                show_namespace(out, s, tg_namespace_find(s, k));
        show_controllers(out, s);
    }
    for (uint32_t i = 0; i < tg.tenant_count; i++)
        tg_text_add(out,
                    "tenant %s: weight %u, cap %" PRIu64 " bytes, %" PRIu64
                    " I/Os a second, floor %" PRIu64 " bytes, %" PRIu64 " I/Os a second\n",
                    tg.tenants[i].nqn, tg.tenants[i].weight, tg.tenants[i].bytes, tg.tenants[i].ios,
                    tg.tenants[i].floor_bytes, tg.tenants[i].floor_ios);
    tg_share_show(out);
}

static int command_show(char **words, int count, struct tg_call *c)
{
    if (count == 1 && strcmp(words[0], "config") == 0)
        tg_config_write(&c->out);
    else if (count == 1 && strcmp(words[0], "stats") == 0)
        tg_figures_show(&c->out);
    else if (count > 0)
        return tg_fail(&c->e, "show: '%s' is neither config nor stats", words[0]);
    else
        show(&c->out);
    return TG_DONE;
}

/* ---- Changes ---- */

static int command_save(char **words, int count, struct tg_call *c)
{
    if (count > 1)
        return tg_fail(&c->e, "save: one FILE at most");
    if (count == 0 && tg.config == NULL)
        return tg_fail(&c->e, "save: FILE is needed, as the target was started without --config");
    c->path = count == 1 ? words[0] : NULL;
    return TG_SAVE;
}

static int namespace_add(char **words, int count, struct tg_call *c)
{
    struct tg_namespace like, *ns;
    if (tg_read_namespace(words, count, &like, &c->e) != 0)
        return TG_FAILED;
    ns = tg_namespace_new(&like, &c->e);
    if (ns == NULL)
        return TG_FAILED;
    if (tg_namespace_up(ns, 1, &c->e) != 0) {
        tg_namespace_free(ns);
        return TG_FAILED;
    }
    tg_record_remove(ns, NULL); /* an earlier one's, before this one is saved */
    tg_text_add(&c->out, "namespace %" PRIu32 "\n", ns->nsid);
    return TG_SAVE;
}

static int remove_failed;

static void record_removed(struct tg_namespace *ns)
{
    tg_namespace_free(ns);
    removing = NULL;
    tg_control_answer(remove_failed);
}

/* Its reservations go when nothing that is saved has the namespace any more. */
static void namespace_saved(int failed)
{
    remove_failed = failed;
    if (failed) /* the file has it still, and the next start gives it back */
        tg_record_leave(removing, record_removed);
    else
        tg_record_remove(removing, record_removed);
}

static void namespace_down(void)
{
    removing->gone = 1;
    tg_control_go();
}

static int namespace_remove(char **words, int count, struct tg_call *c)
{
    struct tg_subsystem *s;
    struct tg_namespace *ns;
    uint64_t nsid;
    if (count != 2)
        return tg_fail(&c->e, "namespace remove: NQN ID is needed");
    if ((s = tg_subsystem_get(words[0], &c->e)) == NULL ||
        tg_read_number("namespace", words[1], 0, 1, UINT32_MAX, &nsid, &c->e) != 0 ||
        (ns = tg_namespace_get(s, (uint32_t)nsid, &c->e)) == NULL)
        return TG_FAILED;
    removing = ns;
    c->after = namespace_saved;
    return tg_namespace_down(ns, namespace_down, &c->e) == 0 ? TG_WAIT : TG_FAILED;
}

static int namespace_resize(char **words, int count, struct tg_call *c)
{
    struct tg_subsystem *s;
    struct tg_namespace *ns;
    uint64_t nsid, bytes;
    if (count != 3)
        return tg_fail(&c->e, "namespace resize: NQN ID BYTES is needed");
    if ((s = tg_subsystem_get(words[0], &c->e)) == NULL ||
        tg_read_number("namespace", words[1], 0, 1, UINT32_MAX, &nsid, &c->e) != 0 ||
        (ns = tg_namespace_get(s, (uint32_t)nsid, &c->e)) == NULL ||
        tg_read_number("size", words[2], 1, 4096, UINT64_C(1) << 46, &bytes, &c->e) != 0)
        return TG_FAILED;
    return tg_namespace_resize(ns, bytes, &c->e) == 0 ? TG_SAVE : TG_FAILED;
}

static int command_reload(char **words, int count, struct tg_call *c)
{
    (void)words;
    if (count > 0)
        return tg_fail(&c->e, "reload: takes no word");
    return tg_keys_reload(&c->out, &c->e) == 0 ? TG_DONE : TG_FAILED;
}

static int subsystem_add(char **words, int count, struct tg_call *c)
{
    struct tg_subsystem *s;
    if (tg_read_subsystem(words, count, &s, &c->e) != 0)
        return TG_FAILED;
    if (tg_subsystem_up(s, &c->e) == 0)
        return TG_SAVE;
    s->nqn[0] = 0;
    return TG_FAILED;
}

static void subsystem_down(void)
{
    leaving->nqn[0] = 0;
    leaving = NULL;
    tg_control_go();
}

static int subsystem_remove(char **words, int count, struct tg_call *c)
{
    struct tg_subsystem *s;
    if (count != 1)
        return tg_fail(&c->e, "subsystem remove: NQN is needed");
    if ((s = tg_subsystem_get(words[0], &c->e)) == NULL)
        return TG_FAILED;
    if (tg_subsystem_full(s))
        return tg_fail(&c->e, "subsystem %s has namespaces: remove them first", s->nqn);
    leaving = s;
    return tg_subsystem_down(s, subsystem_down, &c->e) == 0 ? TG_WAIT : TG_FAILED;
}

static int host_any(struct tg_subsystem *s, int on, struct tg_call *c)
{
    if (tg.auth_keys != NULL)
        return tg_fail(&c->e, "host any: with --auth-keys it does not change: use hosts' names");
    int r = snic_nvmet_any_host(tg_target(), (uint32_t)s->number, on);
    if (r != 0)
        return tg_fail(&c->e, "host any: %s", snic_strerror(r));
    s->any = on;
    return TG_SAVE;
}

static int host_allow(char **words, int count, struct tg_call *c)
{
    struct tg_subsystem *s;
    struct tg_host h;
    if (tg_read_host(words, count, &s, &h, &c->e) != 0)
        return TG_FAILED;
    if (strcmp(h.nqn, "any") == 0)
        return host_any(s, 1, c);
    if (tg_host_find(s, h.nqn) == NULL && s->host_count == TG_HOSTS)
        return tg_fail(&c->e, "host %s: at most %d of a subsystem", h.nqn, TG_HOSTS);
    if (tg_host_up(s, &h, &c->e) != 0 || tg_host_set(s, &h, &c->e) != 0)
        return TG_FAILED;
    return TG_SAVE;
}

static int host_deny(char **words, int count, struct tg_call *c)
{
    struct tg_subsystem *s;
    if (count != 2)
        return tg_fail(&c->e, "host deny: NQN HOSTNQN is needed");
    if ((s = tg_subsystem_get(words[0], &c->e)) == NULL)
        return TG_FAILED;
    if (strcmp(words[1], "any") == 0 && s->any)
        return host_any(s, 0, c);
    struct tg_host *h = tg_host_find(s, words[1]);
    if (h == NULL)
        return tg_fail(&c->e, "host '%s' is not allowed in %s by its name", words[1], s->nqn);
    if (s->any && tg.auth_keys != NULL) { /* it is still any that has a secret */
        h->from_count = 0;
        if (tg_host_up(s, h, &c->e) != 0)
            return TG_FAILED;
    } else {
        int r = snic_nvmet_deny(tg_target(), (uint32_t)s->number, h->nqn);
        if (r != 0)
            return tg_fail(&c->e, "host %s: %s", h->nqn, snic_strerror(r));
    }
    tg_host_drop(s, h);
    return TG_SAVE;
}

static int command_ana(char **words, int count, struct tg_call *c)
{
    struct tg_ana a;
    if (tg_read_ana(words, count, &a, &c->e) != 0 || tg_ana_up(&a, &c->e) != 0)
        return TG_FAILED;
    a.subsystem->ana[a.group - 1][a.port] = a.state;
    return TG_SAVE;
}

static int command_tenant(const char *kind, char **words, int count, struct tg_call *c)
{
    static struct tg_tenant before[TG_TENANTS];
    uint32_t before_count = tg.tenant_count;
    struct tg_tenant t, usual = {.weight = 1};
    struct tg_error ignored;
    memcpy(before, tg.tenants, sizeof(before));
    int member = strcmp(kind, "member") == 0;
    if ((member ? tg_share_member(words, count, &t, &c->e)
                : tg_read_tenant(kind, words, count, &t, &c->e)) != 0 ||
        tg_tenant_set(&t, &c->e) != 0)
        return TG_FAILED;
    if (tg_tenant_up(&t, &c->e) == 0)
        return TG_SAVE;
    memcpy(tg.tenants, before, sizeof(before)); /* and on devices that have taken it */
    tg.tenant_count = before_count;
    memcpy(usual.nqn, t.nqn, sizeof(usual.nqn));
    const struct tg_tenant *old = tg_tenant_find(t.nqn);
    (void)tg_tenant_up(old != NULL ? old : &usual, &ignored);
    return TG_FAILED;
}

static int command_member(char **words, int count, struct tg_call *c)
{
    return command_tenant("member", words, count, c);
}

static int group_set(char **words, int count, struct tg_call *c)
{
    struct tg_share *s, before;
    struct tg_error ignored;
    if (tg_share_read(words, count, &s, &before, &c->e) != 0)
        return TG_FAILED;
    if (tg_share_up(s, &c->e) == 0)
        return TG_SAVE;
    *s = before; /* and on devices that have taken it */
    (void)tg_share_up(s, &ignored);
    return TG_FAILED;
}

static int group_remove(char **words, int count, struct tg_call *c)
{
    struct tg_error ignored;
    if (count != 1)
        return tg_fail(&c->e, "group remove: NAME is needed");
    struct tg_share before, *s = tg_share_get(words[0], &c->e);
    if (s == NULL)
        return TG_FAILED;
    if (tg_share_full(s))
        return tg_fail(&c->e, "group %s has hosts: `member HOSTNQN none` first", s->name);
    before = *s;
    s->name[0] = 0;
    if (tg_share_up(s, &c->e) == 0)
        return TG_SAVE;
    *s = before;
    (void)tg_share_up(s, &ignored);
    return TG_FAILED;
}

static int command_weight(char **words, int count, struct tg_call *c)
{
    return command_tenant("weight", words, count, c);
}

static int command_cap(char **words, int count, struct tg_call *c)
{
    return command_tenant("cap", words, count, c);
}

static int command_floor(char **words, int count, struct tg_call *c)
{
    return command_tenant("floor", words, count, c);
}

int tg_command(char **words, int count, struct tg_call *call)
{
    static const struct {
        const char *name;
        const char *verb; /* NULL: none */
        int (*run)(char **words, int count, struct tg_call *c);
    } commands[] = {
        {"show", NULL, command_show},
        {"save", NULL, command_save},
        {"reload", NULL, command_reload},
        {"subsystem", "add", subsystem_add},
        {"subsystem", "remove", subsystem_remove},
        {"host", "allow", host_allow},
        {"host", "deny", host_deny},
        {"namespace", "add", namespace_add},
        {"namespace", "remove", namespace_remove},
        {"namespace", "resize", namespace_resize},
        {"ana", NULL, command_ana},
        {"weight", NULL, command_weight},
        {"cap", NULL, command_cap},
        {"floor", NULL, command_floor},
        {"group", "set", group_set},
        {"group", "remove", group_remove},
        {"member", NULL, command_member},
    };
    for (size_t i = 0; count > 0 && i < SNIC_COUNTOF(commands); i++) {
        int verb = commands[i].verb != NULL;
        if (strcmp(commands[i].name, words[0]) != 0 ||
            (verb && (count < 2 || strcmp(commands[i].verb, words[1]) != 0)))
            continue;
        return commands[i].run(words + 1 + verb, count - 1 - verb, call);
    }
    return tg_fail(&call->e, "'%s%s%s' is not a command: `nvme_target ctl --help` lists them",
                   count > 0 ? words[0] : "", count > 1 ? " " : "", count > 1 ? words[1] : "");
}
