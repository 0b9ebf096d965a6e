/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * For LD_PRELOAD: from one SIGUSR1 to the next there is no memory for new replies, which begin with
 * a realloc() of nothing.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>

void *realloc(void *p, size_t size);

static volatile sig_atomic_t no_memory;

static void no_memory_toggle(int number)
{
    (void)number;
    no_memory = !no_memory;
}

__attribute__((constructor)) static void no_memory_init(void)
{
    (void)signal(SIGUSR1, no_memory_toggle);
}

void *realloc(void *p, size_t size)
{
    static void *(*real)(void *, size_t);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "realloc");
    return no_memory && p == NULL && size >= 4096 ? NULL : real(p, size);
}
