/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "reply.h"

#include <stddef.h>
#include <stdint.h>

/* [abc], [^a-z]: @return the position behind ']' and whether @p t matches. */
static size_t glob_class(const unsigned char *p, size_t n, size_t i, unsigned char t, int *matches)
{
    int negate = i < n && p[i] == '^';
    int found = 0;

    i += negate ? 1 : 0;
    while (i < n && p[i] != ']') {
        if (p[i] == '\\' && i + 1 < n) {
            found |= p[i + 1] == t;
            i += 2;
        } else if (i + 2 < n && p[i + 1] == '-') {
            unsigned char low = p[i] < p[i + 2] ? p[i] : p[i + 2];
            unsigned char high = p[i] < p[i + 2] ? p[i + 2] : p[i];

            found |= t >= low && t <= high;
            i += 3;
        } else {
            found |= p[i] == t;
            i++;
        }
    }
    *matches = negate ? !found : found;
    return i < n ? i + 1 : n;
}

/* One pattern element other than '*' at p[*i] against t; moves *i behind it. */
static int glob_one(const unsigned char *p, size_t n, size_t *i, unsigned char t)
{
    int matches;

    if (p[*i] == '?') {
        (*i)++;
        return 1;
    }
    if (p[*i] == '[') {
        *i = glob_class(p, n, *i + 1, t, &matches);
        return matches;
    }
    if (p[*i] == '\\' && *i + 1 < n)
        (*i)++;
    return p[(*i)++] == t;
}

int resp_glob(const unsigned char *pattern, size_t pattern_size, const unsigned char *text,
              size_t size)
{
    size_t i = 0;
    size_t t = 0;
    size_t star = SIZE_MAX; /* pattern position behind the last '*' */
    size_t mark = 0;        /* text position that it was tried from */

    while (t < size) {
        size_t next = i;

        if (i < pattern_size && pattern[i] == '*') {
            star = ++i;
            mark = t;
        } else if (i < pattern_size && glob_one(pattern, pattern_size, &next, text[t])) {
            i = next;
            t++;
        } else if (star != SIZE_MAX) {
            i = star;
            t = ++mark;
        } else {
            return 0;
        }
    }
    while (i < pattern_size && pattern[i] == '*')
        i++;
    return i >= pattern_size;
}
