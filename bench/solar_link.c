/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * solar_link DEVICE: no segmentation and no coalescing on a network device of this namespace, so
 * that every packet is one: `ethtool -K DEVICE tso off gso off gro off tx-udp-segmentation off`
 * for machines without ethtool.
 */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define FEATURES 128

static int fd;
static struct ifreq request;

static int exchange(void *what)
{
    request.ifr_data = what;
    return ioctl(fd, SIOCETHTOOL, &request);
}

static int off(uint32_t command)
{
    struct ethtool_value v = {.cmd = command, .data = 0};
    return exchange(&v);
}

/* Which bit the kernel calls @p name; -1: none. */
static int feature(const char *name)
{
    static uint64_t words[(sizeof(struct ethtool_gstrings) + FEATURES * ETH_GSTRING_LEN) / 8 + 1];
    static uint64_t set[4];
    struct ethtool_gstrings *all = (void *)words;
    struct ethtool_sset_info *info = (void *)set;
    info->cmd = ETHTOOL_GSSET_INFO;
    info->sset_mask = UINT64_C(1) << ETH_SS_FEATURES;
    if (exchange(info) < 0 || info->data[0] > FEATURES)
        return -1;
    all->cmd = ETHTOOL_GSTRINGS;
    all->string_set = ETH_SS_FEATURES;
    all->len = info->data[0];
    if (exchange(all) < 0)
        return -1;
    for (uint32_t i = 0; i < all->len; i++) {
        if (strncmp((const char *)all->data + i * ETH_GSTRING_LEN, name, ETH_GSTRING_LEN) == 0)
            return (int)i;
    }
    return -1;
}

static int feature_off(const char *name)
{
    static uint64_t words[16];
    struct ethtool_sfeatures *set = (void *)words;
    int bit = feature(name);
    if (bit < 0)
        return -1;
    set->cmd = ETHTOOL_SFEATURES;
    set->size = (uint32_t)bit / 32 + 1;
    set->features[bit / 32].valid = UINT32_C(1) << bit % 32;
    return exchange(set) < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    if (argc != 2 || strlen(argv[1]) >= sizeof(request.ifr_name)) {
        fprintf(stderr, "solar_link DEVICE\n");
        return 2;
    }
    memcpy(request.ifr_name, argv[1], strlen(argv[1]));
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || off(ETHTOOL_STSO) < 0 || off(ETHTOOL_SGSO) < 0 || off(ETHTOOL_SGRO) < 0 ||
        feature_off("tx-udp-segmentation") < 0) {
        fprintf(stderr, "solar_link: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    return 0;
}
