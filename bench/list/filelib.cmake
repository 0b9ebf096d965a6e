# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_bench(filelib filelib URING SOURCES files_image.c)
