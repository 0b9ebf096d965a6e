/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counterexamples as scripts: followed, shrunk, written and read. */
#include "mc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The suffix that calm() chooses, from a state; verbose prints it. NULL: all is well. */
static const char *script_calm(const struct mc_model *m, const void *from, size_t len,
                               uint32_t steps, int verbose)
{
    unsigned char state[2][MC_STATE_MAX];
    char text[MC_TEXT];
    uint32_t i;

    memcpy(state[0], from, len);
    for (i = 0; i < steps; i++) {
        const char *why;
        uint64_t action;

        if (!m->calm(m->ctx, state[i & 1], len, &action))
            return m->settled(m->ctx, state[i & 1], len);
        if (verbose) {
            m->print(m->ctx, state[i & 1], len, action, text, sizeof(text));
            (void)printf("       ~ %s\n", text);
        }
        len = m->apply(m->ctx, state[i & 1], len, action, state[1 - (i & 1)]);
        if (len == 0)
            return "livelock: a step without effect was chosen";
        why = m->check(m->ctx, state[1 - (i & 1)], len);
        if (why != NULL)
            return why;
    }
    return "livelock: not quiet within the number of steps";
}

const char *mc_calm(const struct mc_model *m, const void *state, size_t len, uint32_t steps)
{
    return script_calm(m, state, len, steps, 0);
}

/* The state after the action that is called so: its bytes, 0: there is none. */
static size_t script_step(const struct mc_model *m, const void *state, size_t len, const char *line,
                          void *out)
{
    uint64_t action[MC_ACTIONS_MAX];
    uint32_t n = m->actions(m->ctx, state, len, action), i;
    char text[MC_TEXT];

    for (i = 0; i < n; i++) {
        m->print(m->ctx, state, len, action[i], text, sizeof(text));
        if (strcmp(text, line) == 0)
            return m->apply(m->ctx, state, len, action[i], out);
    }
    return 0;
}

/* Is nothing possible here? */
static int script_ends(const struct mc_model *m, const void *state, size_t len)
{
    uint64_t action[MC_ACTIONS_MAX];
    unsigned char out[MC_STATE_MAX];
    uint32_t n = m->actions(m->ctx, state, len, action), i;

    for (i = 0; i < n; i++)
        if (m->apply(m->ctx, state, len, action[i], out) != 0)
            return 0;
    return 1;
}

int mc_script_run(const struct mc_model *m, const struct mc_script *s, uint32_t live_steps,
                  int verbose, char *why)
{
    unsigned char state[2][MC_STATE_MAX];
    size_t len = m->init(m->ctx, s->init, state[0]);
    const char *bad = len == 0 ? NULL : m->check(m->ctx, state[0], len);
    uint32_t i;

    if (len == 0)
        return -1;
    for (i = 0; i < s->count && bad == NULL; i++) {
        len = script_step(m, state[i & 1], len, s->line[i], state[1 - (i & 1)]);
        if (len == 0)
            return -1;
        if (verbose)
            (void)printf("  %4u   %s\n", i + 1, s->line[i]);
        bad = m->check(m->ctx, state[1 - (i & 1)], len);
    }
    if (bad == NULL && s->live)
        bad = script_calm(m, state[i & 1], len, live_steps, verbose);
    else if (bad == NULL && m->dead != NULL && script_ends(m, state[i & 1], len))
        bad = m->dead(m->ctx, state[i & 1], len);
    if (why != NULL)
        (void)snprintf(why, MC_TEXT, "%s", bad == NULL ? "" : bad);
    if (verbose)
        (void)printf("         => %s\n", bad == NULL ? "nothing wrong" : bad);
    return bad != NULL && i == s->count;
}

/* Without the lines [at, at + n): the same violation? Then they stay out. */
static int script_without(const struct mc_model *m, struct mc_script *s, uint32_t at, uint32_t n,
                          uint32_t live_steps)
{
    struct mc_script t = *s;
    char why[MC_TEXT];
    int same;

    t.count = s->count - n;
    t.line = calloc(t.count + 1u, sizeof(*t.line));
    if (t.line == NULL)
        abort();
    memcpy(t.line, s->line, at * sizeof(*t.line));
    memcpy(t.line + at, s->line + at + n, (t.count - at) * sizeof(*t.line));
    same = mc_script_run(m, &t, live_steps, 0, why) == 1 && strcmp(why, s->why) == 0;
    if (same) {
        free(s->line);
        *s = t;
    } else {
        free(t.line);
    }
    return same;
}

void mc_script_shrink(const struct mc_model *m, struct mc_script *s, uint32_t live_steps)
{
    uint32_t n;

    for (n = s->count / 2; n > 0;) {
        uint32_t at, any = 0;

        for (at = s->count; at-- > 0;)
            if (at + n <= s->count)
                any |= (uint32_t)script_without(m, s, at, n, live_steps);
        if (!any)
            n /= 2;
        if (n > s->count)
            n = s->count;
    }
}

void mc_script_print(const struct mc_model *m, const struct mc_script *s)
{
    (void)printf("%s: %s, after %u steps%s\n", m->name, s->why, s->count,
                 s->live ? " and a quiet time" : "");
    (void)mc_script_run(m, s, 10000, 1, NULL);
}

int mc_script_save(const struct mc_model *m, const struct mc_script *s, const char *path)
{
    FILE *f = fopen(path, "w");
    uint32_t i;

    if (f == NULL)
        return -1;
    (void)fprintf(f, "# %s\n! %u %d %s\n", m->name, s->init, s->live, s->why);
    for (i = 0; i < s->count; i++)
        (void)fprintf(f, "%s\n", s->line[i]);
    return fclose(f) == 0 ? 0 : -1;
}

int mc_script_load(struct mc_script *s, const char *path)
{
    FILE *f = fopen(path, "r");
    char line[2 * MC_TEXT];
    uint32_t room = 0;

    memset(s, 0, sizeof(*s));
    if (f == NULL)
        return -1;
    while (fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || line[0] == '\0')
            continue;
        if (line[0] == '!') {
            char *p = line + 1;

            s->init = (uint32_t)strtoul(p, &p, 10);
            s->live = (int)strtol(p, &p, 10);
            (void)snprintf(s->why, sizeof(s->why), "%.*s", MC_TEXT - 1, *p == ' ' ? p + 1 : p);
            continue;
        }
        if (s->count == room) {
            room = room == 0 ? 64 : room * 2;
            s->line = realloc(s->line, room * sizeof(*s->line));
            if (s->line == NULL)
                abort();
        }
        (void)snprintf(s->line[s->count++], MC_TEXT, "%.*s", MC_TEXT - 1, line);
    }
    (void)fclose(f);
    return 0;
}

void mc_script_free(struct mc_script *s)
{
    free(s->line);
    s->line = NULL;
    s->count = 0;
}
