# SPDX-License-Identifier: Apache-2.0 OR MIT
snic_test(dma dma SOURCES conformance/conformance_dma.c)
snic_test(dma_local dma URING SOURCES conformance/conformance_dma.c LABELS threads)
snic_test(dma_shm dma URING SOURCES conformance/conformance_dma.c LABELS threads)
snic_test(dma_shm_liar dma URING SOURCES conformance/conformance_dma.c)
