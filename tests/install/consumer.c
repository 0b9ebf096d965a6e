/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Also compiled as C++: what a user of the installed core writes. */
#include <snicstore.h>
#include <stdio.h>

int main(void)
{
    if (snic_version() != SNIC_VERSION || snic_crc32c(0, "123456789", 9) != 0xe3069283u)
        return 1;
    puts(snic_strerror(SNIC_ENOSPC));
    return 0;
}
