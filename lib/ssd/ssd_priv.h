/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * The state of a model, and what its two halves call in each other.
 */
#ifndef SNIC_SSD_PRIV_H
#define SNIC_SSD_PRIV_H

#include "snicstore/ssd.h"

#define SNIC_SSD__NONE UINT32_MAX
#define SNIC_SSD__PROGRAMS_MAX 8
#define SNIC_SSD__OWES_MAX (UINT64_C(1) << 43) /* times stall_odds fits 64 bits */

/** An inner event; `what` is unique among those pending: a die, FETCH, ARRIVAL, a splitter. */
struct ssd_event {
    uint64_t at;
    uint32_t what;
    uint32_t unused;
};

/** A piece of a read at a die. */
struct ssd_piece {
    struct snic_ssd_cmd *cmd;
    uint32_t bytes;
    uint32_t next; /* of the die's queue, or of the free ones */
};

/** A read of which pieces are still to be cut. */
struct ssd_split {
    struct snic_ssd_cmd *cmd;
    uint64_t at; /* the next byte */
    uint64_t end;
    uint32_t next_free;
    uint32_t unused;
};

enum ssd_work { SSD_IDLE, SSD_READ, SSD_PROGRAM, SSD_COLLECT, SSD_STALL };

struct ssd_die {
    int64_t lag;    /* virtual time of reads minus that of writes, scaled by 1024 */
    uint64_t debt;  /* ns of collection owed */
    uint64_t chunk; /* ns of it in work */
    uint32_t first; /* pieces, oldest first; the first is in work if work is SSD_READ */
    uint32_t last;
    uint32_t programs; /* units here, the one in work included */
    uint32_t next;     /* dies with as many programs */
    uint32_t prev;
    uint8_t work;     /* enum ssd_work */
    uint8_t was_read; /* the last operation was a read */
    uint8_t collects; /* until debt is 0 */
    uint8_t unused;
};

struct ssd_queue {
    struct snic_queue cmds;
    uint32_t next; /* in the ring of those that are not empty */
    uint32_t unused;
};

struct ssd_list {
    uint32_t first;
    uint32_t last;
};

/** An erase block; on the free list, open, or full and in the bucket of its valid pages. */
struct ssd_block {
    uint32_t valid;
    uint32_t used; /* pages from its start that were written since it was erased */
    uint32_t next;
    uint32_t prev;
};

#define SNIC_SSD__AGE_RESERVE 4 /* blocks: two open ones, two for collection */
enum { SSD_OPEN_HOST = 0, SSD_OPEN_COPIES = 1 };

/** The map of an AGEING device; pages == 0: there is none. */
struct ssd_age {
    uint32_t pages; /* the host's */
    uint32_t block_pages;
    uint32_t blocks;
    uint32_t free_blocks;
    uint32_t *map;   /* flash page of a host's page */
    uint32_t *owner; /* host's page of a flash page */
    struct ssd_block *block;
    struct ssd_list *bucket; /* full blocks by their valid pages, 0..block_pages */
    struct ssd_list free;
    uint32_t open[2];
    uint64_t page_ns; /* die time of one copy */
    uint64_t owed_ns;
    struct snic_rng rng; /* for preconditioning */
    struct snic_ssd_age_stats stats;
};

struct snic_ssd {
    struct snic_ssd_opts o;
    uint64_t now;
    struct snic_rng rng;
    uint64_t place_key;
    uint64_t gc_unit_ns; /* debt of one program unit; AGEING: at write_amplification */
    struct ssd_age age;
    uint32_t unit;       /* bytes of a piece */
    uint32_t pieces_max; /* size of the pool */
    uint32_t inside;     /* commands */
    /* events: a 4-ary heap by (at, what); `hole` while the top is being handled */
    struct ssd_event *heap;
    uint32_t events;
    uint32_t hole;
    /* commands, in the order of their way */
    struct ssd_queue *queues;
    struct ssd_list ring;
    struct snic_ssd_cmd *fetching;
    uint32_t stalled; /* the window is full */
    uint32_t reading; /* pieces fetched and not finished */
    struct ssd_split *splits;
    uint32_t splits_free;
    struct ssd_piece *pieces;
    uint32_t pieces_free;
    struct snic_queue arriving;  /* on the write link */
    struct snic_queue admission; /* waiting for buffer */
    struct snic_queue done[2];   /* reads, writes; in order of done_ns */
    uint64_t link_read_free;
    uint64_t link_write_free;
    /* the buffer */
    uint32_t buffered; /* bytes, until programmed */
    uint32_t ready;    /* of them, at no die yet */
    uint32_t levels;   /* bit n: some die has n programs */
    struct ssd_list level[SNIC_SSD__PROGRAMS_MAX + 1];
    struct ssd_die *dies;
    uint64_t pool;      /* bytes of programs before the next stalls */
    uint64_t pool_at;   /* filled up to this time */
    uint64_t pool_part; /* of a byte, in 1/1000 */
    struct snic_ssd_stats stats;
};

/* What priv[] of a command holds. */
enum { SSD_LEFT = 0, SSD_ARRIVES = 1, SSD_WHOLE = 2 };

static inline int ssd_before(struct ssd_event a, struct ssd_event b)
{
    return a.at < b.at || (a.at == b.at && a.what < b.what);
}

/** An inner event at @p at; at most one of each @p what. */
void ssd_event_add(struct snic_ssd *d, uint64_t at, uint32_t what);
/** Put @p e where it belongs at or below the top. */
void ssd_event_down(struct snic_ssd *d, struct ssd_event e);

/** A piece joins the queue of its die. */
void ssd_die_read(struct snic_ssd *d, uint32_t die, struct snic_ssd_cmd *cmd, uint32_t bytes);
/** Hand full program units of the buffer to dies that have room. */
void ssd_die_drain(struct snic_ssd *d);
/** The operation of @p die is over, and the next begins. 1: a program unit has left the buffer;
 *  0, with a piece in @p read (zeroed before) if one has left the die. */
int ssd_die_event(struct snic_ssd *d, uint32_t die, struct ssd_piece *read);

/** Flash blocks that the options ask for. */
uint32_t ssd_age_blocks(const struct snic_ssd_opts *o);
/** An empty map in tables that are in place and zero. */
void ssd_age_init(struct ssd_age *a, const struct snic_ssd_opts *o);
/** As snic_ssd_precondition(), its arguments valid. */
void ssd_age_precondition(struct ssd_age *a, uint32_t fill, uint32_t overwrites);
/** The host writes the pages that the range touches. */
void ssd_age_write(struct ssd_age *a, uint64_t offset, uint64_t length);
/** Whether @p count pages from @p page lie in one run, or hold nothing. */
int ssd_age_whole(const struct ssd_age *a, uint64_t page, uint32_t count);
/** What a program unit has to pay of the die time that is owed. */
uint64_t ssd_age_take(struct ssd_age *a);
/** 1: the map's invariants hold. */
int ssd_age_check(const struct ssd_age *a);

#endif /* SNIC_SSD_PRIV_H */
