# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_bench(files files URING SOURCES files_image.c)
