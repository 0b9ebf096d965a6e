/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Numbers, sizes and times of a job file. */
#include "job_text.h"

#include <string.h>

/* Digits at @p text. @return behind them, or NULL: none, or too many */
const char *job_text_digits(const char *text, uint64_t *out)
{
    uint64_t v = 0;

    if (*text < '0' || *text > '9')
        return NULL;
    for (; *text >= '0' && *text <= '9'; text++) {
        unsigned d = (unsigned)(*text - '0');

        if (v > (UINT64_MAX - d) / 10)
            return NULL;
        v = v * 10 + d;
    }
    *out = v;
    return text;
}

char job_text_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 32) : c;
}

/* N, or N with K, M, G, T (powers of 1024), perhaps followed by B or iB. @return behind it */
const char *job_text_bytes(const char *text, uint64_t *out)
{
    static const char units[] = "kmgt";
    const char *end = job_text_digits(text, out);
    const char *u;

    if (end == NULL || *end == 0)
        return end;
    u = strchr(units, job_text_lower(*end));
    if (u == NULL)
        return end;
    if (*out > UINT64_MAX >> (10 * (u - units + 1)))
        return NULL;
    *out <<= 10 * (u - units + 1);
    end++;
    if (end[0] == 'i' && job_text_lower(end[1]) == 'b')
        end++;
    return job_text_lower(*end) == 'b' ? end + 1 : end;
}

/* N or N.N with us, ms, s (the default), m, h. @return behind it */
const char *job_text_time(const char *text, uint64_t *out)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"us", 1000},
                 {"ms", 1000000},
                 {"s", 1000000000},
                 {"m", UINT64_C(60000000000)},
                 {"h", UINT64_C(3600000000000)}};
    uint64_t unit = 1000000000;
    uint64_t whole;
    uint64_t part = 0;
    uint64_t scale = 1;
    const char *end = job_text_digits(text, &whole);

    if (end == NULL)
        return NULL;
    if (*end == '.') {
        const char *from = end + 1;

        end = job_text_digits(from, &part);
        if (end == NULL || end - from > 6)
            return NULL;
        for (; from < end; from++)
            scale *= 10;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(end, units[i].name) == 0) {
            unit = units[i].ns;
            end += strlen(end);
        }
    if (whole > JOB_TEXT_TIME_MAX)
        whole =
            JOB_TEXT_TIME_MAX; /* an hour of it would overflow; it is out of range all the same */
    if (whole > UINT64_MAX / unit - 1)
        return NULL;
    *out = whole * unit + part * unit / scale; /* part < 10^6, unit < 2^42 */
    return end;
}

/* Cut white space at both ends of [text, end). */
char *job_text_trim(char *text, char *end)
{
    while (text < end && (*text == ' ' || *text == '\t'))
        text++;
    while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    *end = 0;
    return text;
}
