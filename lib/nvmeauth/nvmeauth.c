/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Begin, end and invariants of either half. */
#include "nvmeauth/nvmeauth_priv.h"

static void nvmeauth_name(char *out, const char *nqn)
{
    size_t n = 0;
    while (n + 1 < SNIC_NVMEAUTH_NQN_BYTES && nqn[n] != 0)
        n++;
    memcpy(out, nqn, n);
}

void snic_nvmeauth_init(struct snic_nvmeauth *a, const char *hostnqn, const char *subnqn,
                        uint32_t hashes, uint32_t groups)
{
    memset(a, 0, sizeof(*a));
    a->hashes = hashes & SNIC_NVMEAUTH_HASHES;
    a->groups = groups & SNIC_NVMEAUTH_GROUPS;
    nvmeauth_name(a->hostnqn, hostnqn);
    nvmeauth_name(a->subnqn, subnqn);
}

void snic_nvmeauth_fini(struct snic_nvmeauth *a)
{
    snic_nvmeauth_wipe(a, sizeof(*a));
}

static int nvmeauth_is_zero(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] != 0)
            return 0;
    return 1;
}

int snic_nvmeauth_check(const struct snic_nvmeauth *a)
{
    int failed = a->state == SNIC_NVMEAUTH_FAILING || a->state == SNIC_NVMEAUTH_OVER;
    int quiet = failed || a->state == SNIC_NVMEAUTH_IDLE || a->state == SNIC_NVMEAUTH_DONE;
    if (a->state > SNIC_NVMEAUTH_OVER || (a->failure != 0) != failed)
        return SNIC_ECORRUPT;
    if (quiet && (!nvmeauth_is_zero(a->dh, sizeof(a->dh)) ||
                  !nvmeauth_is_zero(a->response, sizeof(a->response)) ||
                  !nvmeauth_is_zero(a->challenge, sizeof(a->challenge)))) /* A1 */
        return SNIC_ECORRUPT;
    if (!quiet && a->state != SNIC_NVMEAUTH_NEGOTIATED &&
        ((a->hashes >> a->hash & 1) == 0 || (a->groups >> a->group & 1) == 0))
        return SNIC_ECORRUPT;
    return a->hostnqn[SNIC_NVMEAUTH_NQN_BYTES - 1] == 0 &&
                   a->subnqn[SNIC_NVMEAUTH_NQN_BYTES - 1] == 0
               ? 0
               : SNIC_ECORRUPT;
}
