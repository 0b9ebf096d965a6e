/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The parameter file: lines of a name and a number, `#` begins a comment. Each name once. */
#include "minos.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int fitted;
} params_known[MINOS_PARAMETER_COUNT] = {
#define PARAMS_ROW(id, name, fitted) [MINOS_##id] = {#name, fitted},
    MINOS_PARAMETERS(PARAMS_ROW)
#undef PARAMS_ROW
};

const char *minos_param_name(uint32_t which)
{
    return params_known[which].name;
}

int minos_param_fitted(uint32_t which)
{
    return params_known[which].fitted;
}

/* One line; 0, or -1: it is not a name and a number. */
static int params_line(struct minos_param *p, char *line, uint8_t *seen)
{
    char name[64];
    unsigned long long value;
    char rest;
    line[strcspn(line, "#\r\n")] = 0;
    if (strspn(line, " \t") == strlen(line))
        return 0;
    if (sscanf(line, "%63s %llu %c", name, &value, &rest) != 2)
        return -1;
    for (uint32_t i = 0; i < MINOS_PARAMETER_COUNT; i++) {
        if (strcmp(name, params_known[i].name) == 0 && !seen[i]) {
            seen[i] = 1;
            p->v[i] = value;
            return 0;
        }
    }
    return -1;
}

int minos_param_load(struct minos_param *p, const char *path)
{
    uint8_t seen[MINOS_PARAMETER_COUNT] = {0};
    char line[512];
    FILE *f = fopen(path, "r");
    int bad = 0;
    memset(p, 0, sizeof(*p));
    if (f == NULL) {
        fprintf(stderr, "bench_minos: cannot read %s\n", path);
        return -1;
    }
    for (int n = 1; !bad && fgets(line, sizeof(line), f) != NULL; n++) {
        bad = params_line(p, line, seen);
        if (bad)
            fprintf(stderr, "bench_minos: %s:%d: not a known name and a number\n", path, n);
    }
    fclose(f);
    for (uint32_t i = 0; i < MINOS_PARAMETER_COUNT && !bad; i++) {
        bad = !seen[i] || p->v[i] > 1000000000;
        if (bad)
            fprintf(stderr, "bench_minos: %s: %s is missing or too large\n", path,
                    params_known[i].name);
        unsigned char bytes[8];
        for (int b = 0; b < 8; b++)
            bytes[b] = (unsigned char)(p->v[i] >> 8 * b);
        p->hash = snic_crc32c(p->hash, params_known[i].name, strlen(params_known[i].name));
        p->hash = snic_crc32c(p->hash, bytes, sizeof(bytes));
    }
    return bad ? -1 : 0;
}
