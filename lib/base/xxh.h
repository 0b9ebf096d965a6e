/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * xxHash, inlined. The one place that includes it, because of one setting: GCC on
 * Arm makes xxHash 0.8.1 read memory through a packed union, which the aliasing
 * rules let the compiler move above the stores that filled that memory (the warning
 * is "may be used uninitialized"). Access by memcpy has no such problem.
 */
#ifndef SNIC_BASE_XXH_H
#define SNIC_BASE_XXH_H

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#ifndef XXH_FORCE_MEMORY_ACCESS
#define XXH_FORCE_MEMORY_ACCESS 0
#endif
#include <xxhash.h>
#undef XXH_INLINE_ALL
#undef XXH_FORCE_MEMORY_ACCESS

#endif /* SNIC_BASE_XXH_H */
