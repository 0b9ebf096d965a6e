/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the files of nvme_target share. */
#ifndef NVME_TARGET_H
#define NVME_TARGET_H

#include "../common.h"

enum {
    TG_LISTENS = SNIC_NVMESUB_PORTS_MAX,
    TG_SUBSYSTEMS = 64,
    TG_NAMESPACES = 256,
    TG_HOSTS = 64,
    TG_WEIGHTS = 64
};

struct tg_namespace {
    const char *path; /* NULL: memory */
    uint64_t bytes;   /* of memory */
    int read_only;
    uint32_t subsystem;
    uint32_t number; /* in its subsystem, from 1 */
    struct snic_disk *disk;
    struct snic_io *io;
    void *qos; /* memory of the switch, or NULL */
};

struct tg_subsystem {
    const char *nqn;
    const char *hosts[TG_HOSTS];
    uint32_t host_count;
    uint32_t namespaces;
    int any;
    char serial[21];
};

struct tg_weight {
    const char *nqn;
    uint32_t weight;
};

struct tg_options {
    const char *listen[TG_LISTENS];
    const char *advertise;
    struct tg_subsystem subs[TG_SUBSYSTEMS];
    struct tg_namespace ns[TG_NAMESPACES];
    struct tg_weight weights[TG_WEIGHTS];
    uint32_t listens;
    uint32_t sub_count;
    uint32_t ns_count;
    uint32_t weight_count;
    uint64_t size; /* of new files */
    uint64_t connections;
    uint64_t host_connections;
    uint64_t queues;
    uint64_t depth;
    uint64_t memory; /* for the data of a connection */
    uint64_t transfer;
    uint64_t connect_seconds;
    uint64_t stats;
    const char *metrics;
    enum ex_level level;
    int fair;
    int cached;
};

extern struct tg_options tg;

/** Read the command line; exits with a line that names what is wrong. */
void tg_options(int argc, char **argv);
/** Open what the namespace is on, with a switch in front where --fair is set. */
void tg_open(struct snic_loop *loop, struct tg_namespace *ns);
void tg_close(struct tg_namespace *ns);
/** The hash of its name and place that is its UUID (version 8). */
void tg_uuid(const struct tg_namespace *ns, uint8_t uuid[16]);

#endif
