/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the files of fuse share: the table of operations. */
#ifndef SNIC_FUSE_PRIV_H
#define SNIC_FUSE_PRIV_H

#include "snicstore/fuse.h"

/* What a name is. */
enum { FUSE_NONE, FUSE_ENTRY, FUSE_LOOKED_UP, FUSE_ANY, FUSE_TARGET, FUSE_ATTRIBUTE };
/* What follows the names. */
enum {
    FUSE_NO_DATA,
    FUSE_DATA_WRITE,    /* in.write.size bytes                  */
    FUSE_DATA_SETXATTR, /* in.setxattr.size                     */
    FUSE_DATA_IOCTL,    /* in.ioctl.in_size                     */
    FUSE_DATA_FORGETS   /* in.batch_forget.count entries        */
};
/* Flags. */
enum {
    FUSE_NO_REPLY = 1,
    FUSE_EXTENDS = 2, /* extensions may follow                */
    FUSE_XSIZE = 4    /* returns its struct for size 0 only   */
};

struct fuse_rule {
    const char *name; /* NULL: no such opcode                 */
    uint16_t in;
    uint16_t out;
    uint8_t names[2];
    uint8_t data;
    uint8_t flags;
};

/* NULL: unknown, or not supported. */
const struct fuse_rule *fuse_rule_of(uint32_t opcode);
/* The name in [name, name + size) can be an entry's. @return 0; SNIC_EINVAL, SNIC_ENAMETOOLONG */
int fuse_name_valid(const char *name, uint32_t size);

#endif
