/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Also compiled as C++: what a user of the installed core writes; with USE_URING, of all of it. */
#include <snicstore.h>
#include <stdio.h>

int main(void)
{
    if (snic_version() != SNIC_VERSION || snic_crc32c(0, "123456789", 9) != 0xe3069283u)
        return 1;
#ifdef USE_URING
    struct snic_loop *loop = NULL;
    int error = snic_loop_uring_open(&loop, NULL);

    /* A kernel without io_uring refuses, and linking is what is tested here. */
    if (error == 0)
        snic_loop_close(loop);
    puts(snic_strerror(error));
#endif
    puts(snic_strerror(SNIC_ENOSPC));
    return 0;
}
