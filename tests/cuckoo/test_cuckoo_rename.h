/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A second copy of the module in one program: include this first, then the module's sources.
 * The copy's functions are called second_VERB.
 */
#ifndef SNIC_TEST_CUCKOO_RENAME_H
#define SNIC_TEST_CUCKOO_RENAME_H

#define snic_cuckoo_memsize second_memsize
#define snic_cuckoo_init second_init
#define snic_cuckoo_opts_wrong second_opts_wrong
#define snic_cuckoo_fini second_fini
#define snic_cuckoo_put second_put
#define snic_cuckoo_put_n second_put_n
#define snic_cuckoo_get second_get
#define snic_cuckoo_get_n second_get_n
#define snic_cuckoo_del second_del
#define snic_cuckoo_update second_update
#define snic_cuckoo_update_evict second_update_evict
#define snic_cuckoo_clear second_clear
#define snic_cuckoo_next second_next
#define snic_cuckoo_count second_count
#define snic_cuckoo_get_stats second_get_stats
#define snic_cuckoo_check second_check

#endif /* SNIC_TEST_CUCKOO_RENAME_H */
