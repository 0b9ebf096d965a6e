/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the files of nvme_target share: options, the configuration as it is now (subsystems, hosts,
 * namespaces, tenants), which the command line or --config begins and `ctl` changes, and what turns
 * it into a target. All run on the first loop's thread, but save.c's thread and those of loops.c.
 */
#ifndef NVME_TARGET_H
#define NVME_TARGET_H

#include "../common.h"

enum {
    TG_LISTENS = SNIC_NVMESUB_PORTS_MAX,
    TG_SUBSYSTEMS = SNIC_NVMET_SUBSYSTEMS_MAX,
    TG_NAMESPACES = 256, /* of all subsystems */
    TG_HOSTS = 64,       /* of a subsystem */
    TG_TENANTS = 64,     /* with a weight, cap or floor of their own */
    TG_GROUPS = 16,      /* ANA groups of a subsystem */
    TG_SHARES = 32,      /* groups of tenants */
    TG_SHARE_NAME = 32,  /* characters of their names */
    TG_LINE = 8192,      /* bytes of a line of the configuration, or of a command */
    TG_WORDS = 32
};

struct tg_namespace;

/** Why something was refused. */
struct tg_error {
    char text[512];
};
/** Set it. @return -1 */
int tg_fail(struct tg_error *e, const char *format, ...) SNIC_PRINTF(2, 3);

/** A file to be replaced as a whole, or removed: save.c. */
struct tg_file {
    struct snic_loop_msg msg;
    struct tg_file *next;
    const char *path;
    char *data; /* NULL: remove the file */
    size_t size;
    int os_error;
    void (*done)(struct tg_file *f); /* on the loop's thread */
};
/** Where a namespace's reservations are stored: reserve.c. */
struct tg_record {
    struct tg_file file;
    char path[4200];
    uint64_t wanted;  /* sequence to be stored; 0: none */
    uint64_t written; /* the one that is being stored */
    int busy;
    int remove;                             /* when it is not busy */
    void (*after)(struct tg_namespace *ns); /* it was removed */
};

struct tg_namespace {
    int used;
    uint32_t subsystem; /* its index in tg.subs */
    uint32_t nsid;
    char *path;           /* NULL: memory */
    uint32_t ssd;         /* memory with the times of a model: profile, from 1; 0: none */
    uint64_t size;        /* 0: all of the file */
    char solar[160];      /* ADDRESS:PORT of a block server, or empty */
    uint64_t solar_disk;  /* its number there */
    uint32_t solar_epoch; /* least lease */
    int read_only;
    uint32_t group;
    uint8_t uuid[16]; /* zeros: from its names */
    unsigned line;    /* of the configuration; 0: elsewhere */
    int gone;         /* removed; its record not yet */
    struct tg_record record;
    struct snic_disk *disk;
    struct tg_solar *client;
    uint64_t room; /* bytes of the device when it was opened */
    struct snic_io *device;
    struct snic_io *io; /* the switch, or the device; NULL: not open */
    void *qos;          /* memory of the switch, or NULL */
};

struct tg_host {
    char nqn[SNIC_NVME_NQN_BYTES];
    struct snic_nvmesub_range from[SNIC_NVMESUB_RANGES_MAX]; /* none: anywhere */
    uint32_t from_count;
};

struct tg_subsystem {
    char nqn[SNIC_NVME_NQN_BYTES]; /* empty: free */
    char serial[21];
    struct tg_host hosts[TG_HOSTS];
    const char *names[TG_HOSTS];
    uint32_t host_count;
    int any;
    uint8_t ana[TG_GROUPS][SNIC_NVMESUB_PORTS_MAX]; /* SNIC_NVME_ANA_*; 0: optimized */
    int number;                                     /* the target's, or negative */
    unsigned line;
};

/** A host's share, at each namespace's device. */
struct tg_tenant {
    char nqn[SNIC_NVME_NQN_BYTES];
    uint32_t weight;
    uint64_t bytes; /* caps a second; 0: none */
    uint64_t ios;
    uint64_t floor_bytes; /* at least, a second; not above a cap of the same kind */
    uint64_t floor_ios;
    uint32_t group; /* index in tg.shares, from 1; 0: none */
};

/** A group of hosts, that has a share of its own, which its hosts share. */
struct tg_share {
    char name[TG_SHARE_NAME + 1]; /* empty: free */
    struct tg_tenant rates;       /* its weight, caps and floors */
};

struct tg_listen {
    char at[160];
    char shown[160]; /* empty: the same */
};

struct tg_options {
    struct tg_listen listen[TG_LISTENS];
    struct tg_subsystem subs[TG_SUBSYSTEMS];
    struct tg_namespace ns[TG_NAMESPACES];
    struct tg_tenant tenants[TG_TENANTS];
    struct tg_share shares[TG_SHARES];
    uint32_t listens;
    int listen_lines; /* the configuration's, not --listen */
    uint32_t tenant_count;
    const char *advertise;
    const char *config;
    const char *socket;
    uint64_t size; /* of new files */
    uint64_t connections;
    uint64_t host_connections;
    uint64_t subsystems; /* most, with --config or --socket */
    uint64_t namespaces; /* of one of them */
    uint64_t queues;
    uint64_t depth;
    uint64_t memory; /* for the data of a connection */
    uint64_t transfer;
    uint64_t connect_seconds;
    uint64_t stats;
    uint64_t loops;
    const char *metrics;
    const char *auth_keys;
    uint32_t auth_groups; /* 0: the default */
    enum ex_level level;
    int fair;
    uint64_t thresh_min_us; /* of the switches (gimbal.h); 0: learned */
    uint64_t thresh_max_us;
    const char *devices; /* file of what the switches have learned, or NULL */
    int cached;
    int steer_cpu;
};

extern struct tg_options tg;

/** Read the command line; exits with a line that names what is wrong. */
void tg_options(int argc, char **argv);

/* ---- model.c: the configuration; a refusal changes nothing ---- */

struct tg_subsystem *tg_subsystem_find(const char *nqn);
/** The same. @return NULL with @p e: none */
struct tg_subsystem *tg_subsystem_get(const char *nqn, struct tg_error *e);
struct tg_subsystem *tg_subsystem_new(const char *nqn, const char *serial, struct tg_error *e);
struct tg_host *tg_host_find(struct tg_subsystem *s, const char *nqn);
/** Allow a host, or replace its address ranges. 0; -1 */
int tg_host_set(struct tg_subsystem *s, const struct tg_host *h, struct tg_error *e);
struct tg_namespace *tg_namespace_find(const struct tg_subsystem *s, uint32_t nsid);
struct tg_namespace *tg_namespace_get(const struct tg_subsystem *s, uint32_t nsid,
                                      struct tg_error *e);
/** @p like has subsystem, path (copied) and so on; nsid 0: the lowest that is free. NULL; */
struct tg_namespace *tg_namespace_new(const struct tg_namespace *like, struct tg_error *e);
void tg_namespace_free(struct tg_namespace *ns);
void tg_host_drop(struct tg_subsystem *s, struct tg_host *h);
/** Has the subsystem a namespace? */
int tg_subsystem_full(const struct tg_subsystem *s);
/** Set a host's share. 0; -1 */
int tg_tenant_set(const struct tg_tenant *t, struct tg_error *e);
const struct tg_tenant *tg_tenant_find(const char *nqn);
/** Its options at a switch. */
struct snic_gimbal_tenant_opts tg_tenant_opts(const struct tg_tenant *t);
int tg_nqn_fits(const char *what, const char *nqn, struct tg_error *e);

/* ---- words.c: lines of words ---- */

struct tg_text {
    char *data;
    size_t size;
    size_t room;
    int failed; /* out of memory */
};
void tg_text_add(struct tg_text *t, const char *format, ...) SNIC_PRINTF(2, 3);
/** A blank and the word @p name @p value, quoted where it has to be. */
void tg_text_word(struct tg_text *t, const char *name, const char *value);
void tg_text_free(struct tg_text *t);
/** Split @p line in place. @return words, at most TG_WORDS; -1 */
int tg_split(char *line, char **words, struct tg_error *e);

/* ---- config.c: the same as text ---- */

/** The words of a line after the first, its kind; or those of a command. 0; -1 */
int tg_read_subsystem(char **words, int count, struct tg_subsystem **out, struct tg_error *e);
int tg_read_host(char **words, int count, struct tg_subsystem **sub, struct tg_host *out,
                 struct tg_error *e);
/** @p out's path belongs to the words. */
int tg_read_namespace(char **words, int count, struct tg_namespace *out, struct tg_error *e);
int tg_read_tenant(const char *kind, char **words, int count, struct tg_tenant *out,
                   struct tg_error *e);
int tg_read_number(const char *what, const char *text, int size, uint64_t min, uint64_t max,
                   uint64_t *out, struct tg_error *e);
/** @p out has the state of the group at the port, from 1 and 0. 0; -1 */
struct tg_ana {
    struct tg_subsystem *subsystem;
    uint32_t group;
    uint32_t port;
    uint8_t state;
};
int tg_read_ana(char **words, int count, struct tg_ana *out, struct tg_error *e);
/** A line of the configuration, without its end; changed by it. 0; -1 refused, nothing changed */
int tg_config_line(char *text, unsigned line, struct tg_error *e);
/** Read --config; exits with a line that names what is wrong. */
void tg_config_read(const char *path);
/** The configuration as it is. */
void tg_config_write(struct tg_text *out);

/** The value of the word NAME=VALUE; NULL: it is another. */
const char *tg_word_value(const char *word, const char *name);
/** A floor above the cap of its kind could not hold. 0; -1 */
int tg_rates_agree(const struct tg_tenant *t, struct tg_error *e);

/* ---- share.c: groups of hosts ---- */

/** A line of the configuration, or a command: the group is in the model, and @p out set, with
 * @p before what it was (name empty: it is new). 0; -1 */
int tg_share_read(char **words, int count, struct tg_share **out, struct tg_share *before,
                  struct tg_error *e);
/** HOSTNQN NAME or, as a command, HOSTNQN none: the host with that group. 0; -1 */
int tg_share_member(char **words, int count, struct tg_tenant *out, struct tg_error *e);
/** A group of hosts by its name. @return NULL with @p e: none */
struct tg_share *tg_share_get(const char *name, struct tg_error *e);
/** Has it a host? */
int tg_share_full(const struct tg_share *s);
void tg_share_write(struct tg_text *out);
void tg_share_write_member(struct tg_text *out, const struct tg_tenant *t);
/** Of `ctl show`. */
void tg_share_show(struct tg_text *out);
/** All groups at a switch, before its tenants. Where its loop runs. @return 0; SNIC_E* */
int tg_share_open(struct snic_io *io);
/** The group as it is at all switches, or, if its name is empty, at none. 0; -1 */
int tg_share_up(const struct tg_share *s, struct tg_error *e);

/* ---- ssd.c: memory that is as slow as an SSD ---- */

/** The profile of that name. 0; -1 */
int tg_ssd_find(const char *name, uint32_t *out, struct tg_error *e);
const char *tg_ssd_name(uint32_t profile);
/** @return 0; SNIC_E* */
int tg_ssd_open(struct snic_io **out, struct snic_loop *loop, struct snic_disk *disk,
                uint32_t profile);

/* ---- solar.c: virtual disks ---- */

/** 0; -1, and tg_solar_close() follows all the same */
int tg_solar_open(struct snic_loop *loop, struct tg_namespace *ns, int live, struct tg_error *e);
/** Before the loops run: the leases of disks that were opened without @p live become durable. 0; -1
 */
int tg_solar_begin(struct tg_error *e);
/** After its handle was closed. */
void tg_solar_close(struct tg_namespace *ns);
/** Close what is left of loop @p part, not from inside an event of it. */
void tg_solar_end(uint32_t part);

/* ---- device.c ---- */

/** What the namespace is on, for people: a path, or memory. */
const char *tg_device_name(const struct tg_namespace *ns);

/** Open what the namespace is on, with a switch in front where --fair is set. 0; -1 */
int tg_open(struct snic_loop *loop, struct tg_namespace *ns, int live, struct tg_error *e);
void tg_close(struct tg_namespace *ns);
/** Give what it is on so many bytes, where it has fewer. 0; -1 */
int tg_grow(struct tg_namespace *ns, uint64_t bytes, struct tg_error *e);
/** The hash of its name and place is its UUID (version 8), unless it has one. 0; -1 */
int tg_uuid(struct tg_namespace *ns, struct tg_error *e);

/* ---- keys.c: --auth-keys ---- */

/** The parser of --auth-groups. */
int tg_keys_groups(void *target, const char *text);
/** Read the file, if there is one, and require authentication; exits with what is wrong. */
void tg_keys_begin(struct snic_nvmet *t);
/** Read the file again; hosts without a secret now are denied. 0; -1 nothing changed, but for a
 * failure that names host and subsystem */
int tg_keys_reload(struct tg_text *out, struct tg_error *e);
/** Overwrite the secrets. */
void tg_keys_end(void);
/** Has the host a secret, where one is required? 0; -1 */
int tg_keys_has(const char *nqn, struct tg_error *e);
/** The hosts of a subsystem that have to authenticate, which with --auth-keys are all. 0; -1 one
 * has no secret */
int tg_keys_hosts(const struct tg_subsystem *s, struct snic_nvmet_subsystem_opts *o,
                  struct tg_error *e);

/* ---- live.c: the target ---- */

struct snic_nvmet *tg_target(void);
void tg_target_set(struct snic_nvmet *t, struct snic_loop *loop);
int tg_subsystem_up(struct tg_subsystem *s, struct tg_error *e);
/** Open its device and add it. On failure it is closed. 0; -1 */
int tg_namespace_up(struct tg_namespace *ns, int live, struct tg_error *e);
/** A tenant's weight, caps and floors at all switches. 0; -1 */
int tg_tenant_up(const struct tg_tenant *t, struct tg_error *e);
/** Change its size, to whole blocks of @p bytes. 0; -1 */
int tg_namespace_resize(struct tg_namespace *ns, uint64_t bytes, struct tg_error *e);
int tg_host_up(const struct tg_subsystem *s, const struct tg_host *h, struct tg_error *e);
int tg_ana_up(const struct tg_ana *a, struct tg_error *e);
/** Remove the subsystem, which has no namespaces; then @p done. 0; -1 */
int tg_subsystem_down(struct tg_subsystem *s, void (*done)(void), struct tg_error *e);
/** Remove it, close its device, then @p done. 0; -1 */
int tg_namespace_down(struct tg_namespace *ns, void (*done)(void), struct tg_error *e);

/* ---- loops.c: the loops beyond the first, each with its thread ---- */

/** They join the target. */
void tg_loops_open(struct snic_nvmet *first, const struct snic_nvmet_opts *o,
                   const struct snic_net_uring_opts *net);
/** The loop of the namespace's device. */
struct snic_loop *tg_loops_of(const struct tg_namespace *ns, struct snic_loop *first);
uint32_t tg_loops_part(const struct tg_namespace *ns); /* its number */
/** Call @p fn there, and wait until it has returned. */
void tg_loops_call(const struct tg_namespace *ns, void (*fn)(void *ctx), void *ctx);
void tg_loops_share(uint32_t port);
/** Start the threads; ask them to end; wait until they have, after the first loop's close. */
void tg_loops_run(void);
/** With --steer-cpu the calling thread, that of loop @p i, runs on the CPUs whose connections it
 * accepts, if there are any. */
void tg_loops_pin(uint32_t i);
void tg_loops_stop(void);
void tg_loops_close(void);
/** Add their counters. */
void tg_loops_stats(struct snic_nvmet_stats *sum);

/* ---- observe.c: what each host's I/O commands did, on all loops ---- */

enum { TG_SEEN = 256, TG_BUCKET_SHIFT = 12, TG_BUCKETS = 90 };
enum tg_kind { TG_READ, TG_WRITE, TG_FLUSH, TG_OTHER, TG_KINDS };

struct tg_tally {
    uint64_t ios; /* that ended well */
    uint64_t bytes;
    uint64_t ns;                  /* sum, from capsule to completion */
    uint64_t buckets[TG_BUCKETS]; /* below 4096 ns, then four for each power of two */
};
struct tg_seen {
    uint32_t tenant;
    char name[SNIC_NVME_NQN_BYTES]; /* printable */
    uint64_t errors;
    struct tg_tally kinds[TG_KINDS];
};
/** Count the commands of the target that is opened with these options. */
void tg_observe_begin(struct snic_nvmet_opts *o);
void tg_observe_end(void);
/** The hosts that have done I/O, until the next call; the last one of more than TG_SEEN: others. */
const struct tg_seen *tg_seen_update(uint32_t *count);
void tg_tally_add(struct tg_tally *to, const struct tg_tally *t);
/** An upper bound, at most a quarter above it; 0: none. */
uint64_t tg_tally_quantile(const struct tg_tally *t, uint32_t per_million);
/** How many took less than 4096 ns times 2 to the power. */
uint64_t tg_tally_below(const struct tg_tally *t, uint32_t power);

/* ---- figures.c: the same for people and for Prometheus ---- */

/** ex_stats_fn and ex_stats_page_fn. */
size_t tg_figures(void *ctx, struct ex_metric *m);
char *tg_figures_page(void *ctx, size_t *size);
/** Once a second: rates are those since the last call. */
void tg_figures_tick(uint64_t now);
/** `ctl show stats`. */
void tg_figures_show(struct tg_text *out);

/* ---- save.c: files that a power loss leaves old or new ---- */

void tg_files_begin(struct snic_loop *loop);
/** Replace the file by one with this content; done follows when it is durable, or has failed. */
void tg_file_write(struct tg_file *f);
/** The same here and now. @return 0; -1 errno */
int tg_file_now(const struct tg_file *f);
/** Everything has been written, and done called. */
void tg_files_end(void);

/* ---- reserve.c: reservations that persist ---- */

/** snic_nvmet_persist_fn. */
void tg_persist(void *ctx, uint32_t subsystem, uint32_t nsid, uint64_t sequence);
/** Before hosts connect. 0; -1 */
int tg_record_restore(struct tg_namespace *ns, struct tg_error *e);
/** Remove the file, if there is one; then @p after, unless it is NULL. */
void tg_record_remove(struct tg_namespace *ns, void (*after)(struct tg_namespace *ns));
/** The file stays; @p after when no write of it is under way. */
void tg_record_leave(struct tg_namespace *ns, void (*after)(struct tg_namespace *ns));

/* ---- control.c, command.c: `ctl` ---- */

void tg_control_begin(struct snic_loop *loop, struct snic_net *net, const char *path);
void tg_control_end(void);

enum tg_result { TG_FAILED = -1, TG_DONE, TG_SAVE, TG_WAIT };

struct tg_call {
    struct tg_text out; /* lines, without the last one, which is "ok" or "error: TEXT" */
    struct tg_error e;
    const char *path;          /* SAVE: there instead of --config; one of the words, or NULL */
    void (*after)(int failed); /* it was saved, or not: calls tg_control_answer(); or NULL */
};
/** Carry out a command. WAIT: tg_control_go() follows. @return enum tg_result */
int tg_command(char **words, int count, struct tg_call *call);
/** What the command waited for has happened; now the configuration is to be saved. */
void tg_control_go(void);
/** Nothing is left to be done: the answer. */
void tg_control_answer(int failed);
/** A name as a host has sent it, for a terminal. */
void tg_show_name(const char *name, char *out, size_t size);
/** The commands and what they do, as --help shows them. */
extern const char tg_commands[];

/** The client. @return its exit code */
int tg_ctl(int argc, char **argv);

#endif
