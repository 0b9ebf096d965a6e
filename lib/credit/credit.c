/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Algorithm 3 in one word: total in the upper half, inflight in the lower, changed together by
 * compare and exchange.
 *
 * Invariants
 *   K1 inflight is the number of takes that returned 1, less returns and cancels.
 *   K2 A take returns 1 only if its exchange replaced a word with inflight < total, or inflight 0.
 *
 * All accesses are relaxed: the word guards no other memory. What a completion carried reaches
 * another thread by the way the caller passes it on.
 */
#include "snicstore/credit.h"

static uint32_t credit_total(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static uint32_t credit_inflight(uint64_t word)
{
    return (uint32_t)word;
}

/** C1 of credit.h: how many more may leave. */
static uint32_t credit_room(uint64_t word)
{
    uint32_t total = credit_total(word);
    uint32_t inflight = credit_inflight(word);
    if (total > inflight)
        return total - inflight;
    return inflight == 0;
}

void snic_credit_init(struct snic_credit *c, uint32_t total)
{
    __atomic_store_n(&c->word, (uint64_t)(total != 0 ? total : 1) << 32, __ATOMIC_RELAXED);
}

int snic_credit_take(struct snic_credit *c)
{
    uint64_t word = __atomic_load_n(&c->word, __ATOMIC_RELAXED);
    do {
        if (credit_room(word) == 0) /* K2; inflight UINT32_MAX has no room either */
            return 0;
    } while (!__atomic_compare_exchange_n(&c->word, &word, word + 1, 1, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return 1;
}

void snic_credit_return(struct snic_credit *c, uint32_t granted)
{
    uint64_t word = __atomic_load_n(&c->word, __ATOMIC_RELAXED);
    uint64_t next;
    do {
        SNIC_ASSERT(credit_inflight(word) > 0); /* K1 */
        next = (uint64_t)granted << 32 | (credit_inflight(word) - 1);
    } while (
        !__atomic_compare_exchange_n(&c->word, &word, next, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

void snic_credit_cancel(struct snic_credit *c)
{
    uint64_t word = __atomic_fetch_sub(&c->word, 1, __ATOMIC_RELAXED);
    (void)word;
    SNIC_ASSERT(credit_inflight(word) > 0); /* K1 */
}

uint32_t snic_credit_room(const struct snic_credit *c)
{
    return credit_room(__atomic_load_n(&c->word, __ATOMIC_RELAXED));
}

uint32_t snic_credit_total(const struct snic_credit *c)
{
    return credit_total(__atomic_load_n(&c->word, __ATOMIC_RELAXED));
}

uint32_t snic_credit_inflight(const struct snic_credit *c)
{
    return credit_inflight(__atomic_load_n(&c->word, __ATOMIC_RELAXED));
}
