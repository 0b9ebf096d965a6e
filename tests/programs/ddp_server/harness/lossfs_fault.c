/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "lossfs_fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOSSFS_SECOND = 1000000000 };

static uint64_t lossfs_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * LOSSFS_SECOND + (uint64_t)t.tv_nsec;
}

void lossfs_fault_init(struct lossfs_faults *f, pthread_mutex_t *lock)
{
    pthread_condattr_t a;
    memset(f, 0, sizeof(*f));
    f->lock = lock;
    (void)pthread_condattr_init(&a);
    (void)pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&f->changed, &a);
    (void)pthread_condattr_destroy(&a);
}

static uint64_t lossfs_fault_until(const struct lossfs_faults *f, enum lossfs_kind kind,
                                   uint64_t began)
{
    uint64_t until = f->slow_ns[kind] != 0 ? began + f->slow_ns[kind] : 0;
    return until > f->stalled_until_ns[kind] ? until : f->stalled_until_ns[kind];
}

int lossfs_fault_enter(struct lossfs_faults *f, enum lossfs_kind kind)
{
    uint64_t losses = f->losses, began = lossfs_now(), until;
    f->ops[kind]++;
    while (losses == f->losses && !f->off &&
           lossfs_now() < (until = lossfs_fault_until(f, kind, began))) {
        struct timespec t = {(time_t)(until / LOSSFS_SECOND), (long)(until % LOSSFS_SECOND)};
        (void)pthread_cond_timedwait(&f->changed, f->lock, &t);
    }
    int dark = f->off || losses != f->losses;
    int r = dark ? EIO : f->error[kind];
    if (!dark && f->once[kind])
        f->error[kind] = f->once[kind] = 0;
    f->failed[kind] += r != 0;
    return r;
}

void lossfs_fault_power(struct lossfs_faults *f, int on)
{
    f->off = !on;
    if (on)
        return;
    f->losses++;
    memset(f->stalled_until_ns, 0, sizeof(f->stalled_until_ns));
    (void)pthread_cond_broadcast(&f->changed);
}

/* Bits of the kinds that a word names; 0: none. */
static unsigned lossfs_fault_kinds(const char *word)
{
    static const char *const name[LOSSFS_KINDS] = {"read", "write", "fsync", "other"};
    if (strcmp(word, "all") == 0)
        return (1u << LOSSFS_KINDS) - 1;
    for (unsigned k = 0; k < LOSSFS_KINDS; k++) {
        if (strcmp(word, name[k]) == 0)
            return 1u << k;
    }
    return 0;
}

static int lossfs_fault_number(const char *word, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(word, &end, 10);
    return errno != 0 || end == word || *end != 0;
}

static int lossfs_fault_errno(const char *word)
{
    return strcmp(word, "EIO") == 0      ? EIO
           : strcmp(word, "ENOSPC") == 0 ? ENOSPC
           : strcmp(word, "off") == 0    ? 0
                                         : -1;
}

/* stall KIND MS, slow KIND US, fail KIND EIO|ENOSPC|off [once] */
static int lossfs_fault_set(struct lossfs_faults *f, char *const *word, size_t words)
{
    unsigned kinds = words >= 3 ? lossfs_fault_kinds(word[1]) : 0;
    int is_fail = strcmp(word[0], "fail") == 0;
    int error = is_fail && words >= 3 ? lossfs_fault_errno(word[2]) : 0;
    uint64_t n = 0;
    if (kinds == 0 || error < 0 || (!is_fail && lossfs_fault_number(word[2], &n)))
        return -1;
    for (unsigned k = 0; k < LOSSFS_KINDS; k++) {
        if ((kinds >> k & 1) == 0)
            continue;
        if (is_fail) {
            f->error[k] = error;
            f->once[k] = error != 0 && words > 3 && strcmp(word[3], "once") == 0;
        } else if (strcmp(word[0], "stall") == 0) {
            f->stalled_until_ns[k] = n == 0 ? 0 : lossfs_now() + n * 1000000;
        } else {
            f->slow_ns[k] = n * 1000;
        }
    }
    (void)pthread_cond_broadcast(&f->changed);
    return 0;
}

int lossfs_fault_command(struct lossfs_faults *f, char *const *word, size_t words)
{
    const char *c = word[0];
    if (strcmp(c, "stall") == 0 || strcmp(c, "slow") == 0 || strcmp(c, "fail") == 0)
        return lossfs_fault_set(f, word, words);
    if (strcmp(c, "lie") == 0 && words == 2) {
        f->lies = strcmp(word[1], "on") == 0;
        return 0;
    }
    if (strcmp(c, "limit") == 0 && words == 2)
        return lossfs_fault_number(word[1], &f->limit) ? -1 : 0;
    return 1;
}
