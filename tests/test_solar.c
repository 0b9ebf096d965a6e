/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "support.h"
int main(int argc, char **argv)
{
    (void)argc; (void)argv;
    return 0;
}
