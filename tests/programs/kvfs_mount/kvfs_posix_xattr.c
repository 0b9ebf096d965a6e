/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Extended attributes, and ACLs, which are two of them. */
#include "kvfs_posix.h"
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>

static char xattr_value[65537], xattr_back[65537];

/* How often the name is in the list; -1: the list cannot be had. */
static int xattr_listed(const char *path, const char *name)
{
    char list[65536];
    ssize_t n = llistxattr(path, list, sizeof(list));
    int found = 0;
    for (ssize_t i = 0; i < n; i += (ssize_t)strlen(list + i) + 1) {
        found += strcmp(list + i, name) == 0;
    }
    return n == -1 ? -1 : found;
}

static void xattr_basic(const char *name)
{
    posix_about("%s", name);
    touch("x", 0644);
    IS(ENODATA, getxattr("x", name, xattr_back, 100));
    IS(ENODATA, removexattr("x", name));
    IS(ENODATA, setxattr("x", name, "v", 1, XATTR_REPLACE));
    EQ(0, xattr_listed("x", name));
    CHANGES(0, setxattr("x", name, "value", 5, XATTR_CREATE), {.path = "x", .change = "c"});
    EQ(1, xattr_listed("x", name));
    EQ(5, getxattr("x", name, NULL, 0));
    EQ(5, getxattr("x", name, xattr_back, 100));
    TRUE(memcmp(xattr_back, "value", 5) == 0);
    IS(ERANGE, getxattr("x", name, xattr_back, 4));
    IS(EEXIST, setxattr("x", name, "other", 5, XATTR_CREATE));
    EQ(5, getxattr("x", name, xattr_back, 5));
    TRUE(memcmp(xattr_back, "value", 5) == 0);
    CHANGES(0, setxattr("x", name, "o\0ther", 6, XATTR_REPLACE), {.path = "x", .change = "c"});
    EQ(6, getxattr("x", name, xattr_back, 100));
    TRUE(memcmp(xattr_back, "o\0ther", 6) == 0);
    IS(0, setxattr("x", name, "", 0, 0));
    EQ(0, getxattr("x", name, xattr_back, 100));
    EQ(1, xattr_listed("x", name));
    IS(ERANGE, listxattr("x", xattr_back, 1));
    CHANGES(0, removexattr("x", name), {.path = "x", .change = "c"});
    EQ(0, xattr_listed("x", name));
    IS(ENODATA, getxattr("x", name, xattr_back, 100));
    unlink("x");
}

static void xattr_all(void)
{
    xattr_basic("user.a");
    xattr_basic("trusted.a");
    xattr_basic("security.a");
    char name[300] = "user.";
    memset(name + 5, 'n', 250);
    xattr_basic(name);
    posix_about("names refused");
    touch("x", 0644);
    memset(name + 5, 'n', 251);
    IS(ERANGE, setxattr("x", name, "v", 1, 0));
    IS(EOPNOTSUPP, setxattr("x", "nothing.a", "v", 1, 0));
    IS(EINVAL, setxattr("x", "user.", "v", 1, 0));
    IS(EINVAL, setxattr("x", "user.a", "v", 1, XATTR_CREATE | XATTR_REPLACE | 8));
    posix_about("values");
    for (size_t i = 0; i < sizeof(xattr_value); i++) {
        xattr_value[i] = (char)(i * 31 / 7);
    }
    for (size_t n = 1; n <= (posix_is_kvfs ? 65536U : 2048U); n = n * 2) {
        IS(0, setxattr("x", "user.v", xattr_value, n, 0));
        EQ(n, getxattr("x", "user.v", xattr_back, sizeof(xattr_back)));
        TRUE(memcmp(xattr_value, xattr_back, n) == 0);
    }
    IS(E2BIG, setxattr("x", "user.v", xattr_value, 65537, 0));
    posix_about("many");
    IS(0, removexattr("x", "user.v"));
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof(name), "user.many%d", i);
        IS(0, setxattr("x", name, name, (size_t)(i % 20), 0));
    }
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof(name), "user.many%d", i);
        EQ(1, xattr_listed("x", name));
        EQ(i % 20, getxattr("x", name, xattr_back, 100));
    }
    posix_about("they move with the file and go with it");
    rename("x", "y");
    EQ(5, getxattr("y", "user.many5", xattr_back, 100));
    unlink("y");
    touch("y", 0644);
    EQ(0, xattr_listed("y", "user.many5"));
    unlink("y");
}

static void xattr_rights(void)
{
    posix_about("rights");
    make_as(REGULAR, "x", U1, G1, 0644);
    setxattr("x", "user.a", "1", 1, 0);
    setxattr("x", "trusted.a", "1", 1, 0);
    user(U1, G1, 0, 0);
    IS(0, setxattr("x", "user.b", "1", 1, 0));
    EQ(1, getxattr("x", "user.a", xattr_back, 10));
    IS(EPERM, setxattr("x", "trusted.b", "1", 1, 0));
    IS(ENODATA, getxattr("x", "trusted.a", xattr_back, 10));
    EQ(0, xattr_listed("x", "trusted.a"));
    EQ(1, xattr_listed("x", "user.a"));
    user(U2, G2, 0, 0);
    EQ(1, getxattr("x", "user.a", xattr_back, 10));
    IS(EACCES, setxattr("x", "user.b", "1", 1, 0));
    IS(EACCES, removexattr("x", "user.a"));
    root();
    chmod("x", 0600);
    user(U2, G2, 0, 0);
    IS(EACCES, getxattr("x", "user.a", xattr_back, 10));
    root();
    EQ(1, xattr_listed("x", "trusted.a"));
    unlink("x");
    for (int t = 0; t < TYPES; t++) {
        posix_about("user. of a %s", posix_type_name[t]);
        make((enum posix_type)t, "x");
        IS(t == REGULAR || t == DIRECTORY ? 0 : EPERM, lsetxattr("x", "user.a", "1", 1, 0));
        posix_about("trusted. of a %s", posix_type_name[t]);
        IS(0, lsetxattr("x", "trusted.a", "12", 2, 0));
        EQ(2, lgetxattr("x", "trusted.a", xattr_back, 10));
        EQ(1, xattr_listed("x", "trusted.a"));
        IS(0, lremovexattr("x", "trusted.a"));
        destroy((enum posix_type)t, "x");
    }
    posix_about("user. in a sticky folder");
    make_as(DIRECTORY, "d", U1, G1, 01777);
    user(U2, G2, 0, 0);
    IS(EPERM, setxattr("d", "user.a", "1", 1, 0));
    user(U1, G1, 0, 0);
    IS(0, setxattr("d", "user.a", "1", 1, 0));
    root();
    rmdir("d");
}

/* ---- ACLs ---- */

struct acl {
    struct posix_acl_xattr_header header;
    struct posix_acl_xattr_entry entry[8];
};
static const char *const acl_access = "system.posix_acl_access";
static const char *const acl_default = "system.posix_acl_default";

/* user, one named user, group, one named group, mask, other */
static struct acl acl_make(int u, int named_u, int g, int named_g, int mask, int o)
{
    struct acl a = {.header = {POSIX_ACL_XATTR_VERSION},
                    .entry = {{ACL_USER_OBJ, (uint16_t)u, (uint32_t)ACL_UNDEFINED_ID},
                              {ACL_USER, (uint16_t)named_u, U2},
                              {ACL_GROUP_OBJ, (uint16_t)g, (uint32_t)ACL_UNDEFINED_ID},
                              {ACL_GROUP, (uint16_t)named_g, G3},
                              {ACL_MASK, (uint16_t)mask, (uint32_t)ACL_UNDEFINED_ID},
                              {ACL_OTHER, (uint16_t)o, (uint32_t)ACL_UNDEFINED_ID}}};
    return a;
}
enum {
    ACL_BYTES = sizeof(struct posix_acl_xattr_header) + 6 * sizeof(struct posix_acl_xattr_entry)
};

static void acl_rights(void)
{
    for (int bits = 0; bits < 8; bits++) {
        for (int mask = 0; mask < 8; mask++) {
            posix_about("an ACL with named rights %d and the mask %d", bits, mask);
            make_as(REGULAR, "x", U1, G1, 0600);
            struct acl a = acl_make(6, bits, 0, 7 & ~bits, mask, 0);
            IS(0, setxattr("x", acl_access, &a, ACL_BYTES, 0));
            EQ(0600 | mask << 3, st_of("x").st_mode & 07777);
            for (int want = 1; want < 8; want++) {
                user(U2, G2, 0, 0);
                IS((bits & mask & want) == want ? 0 : EACCES,
                   faccessat(AT_FDCWD, "x", want, AT_EACCESS));
                user(U2 + 5, G2, G3, 0);
                IS((~bits & mask & want) == want ? 0 : EACCES,
                   faccessat(AT_FDCWD, "x", want, AT_EACCESS));
                root();
            }
            unlink("x");
        }
    }
}

static void acl_changes(void)
{
    struct acl a = acl_make(7, 5, 1, 6, 7, 4), b;
    posix_about("chmod changes the mask");
    make_as(REGULAR, "x", U1, G1, 0600);
    CHANGES(0, setxattr("x", acl_access, &a, ACL_BYTES, 0), {.path = "x", .change = "c"});
    EQ(0774, st_of("x").st_mode & 07777);
    EQ(ACL_BYTES, getxattr("x", acl_access, &b, sizeof(b)));
    TRUE(memcmp(&a, &b, ACL_BYTES) == 0);
    EQ(1, xattr_listed("x", acl_access));
    IS(0, chmod("x", 0640));
    EQ(ACL_BYTES, getxattr("x", acl_access, &b, sizeof(b)));
    EQ(6, b.entry[0].e_perm);
    EQ(5, b.entry[1].e_perm);
    EQ(4, b.entry[4].e_perm);
    EQ(0, b.entry[5].e_perm);
    EQ(0640, st_of("x").st_mode & 07777);
    posix_about("an ACL of three entries is the mode");
    struct acl c = {.header = {POSIX_ACL_XATTR_VERSION},
                    .entry = {{ACL_USER_OBJ, 7, (uint32_t)ACL_UNDEFINED_ID},
                              {ACL_GROUP_OBJ, 5, (uint32_t)ACL_UNDEFINED_ID},
                              {ACL_OTHER, 1, (uint32_t)ACL_UNDEFINED_ID}}};
    IS(0, setxattr("x", acl_access, &c, 28, 0));
    EQ(0751, st_of("x").st_mode & 07777);
    IS(ENODATA, getxattr("x", acl_access, &b, sizeof(b)));
    posix_about("ACLs refused");
    IS(EACCES, setxattr("x", acl_default, &a, ACL_BYTES, 0));
    a.header.a_version = 9;
    IS(EOPNOTSUPP, setxattr("x", acl_access, &a, ACL_BYTES, 0));
    a.header.a_version = POSIX_ACL_XATTR_VERSION;
    IS(EINVAL, setxattr("x", acl_access, &a, ACL_BYTES - 8, 0));
    a.entry[4].e_tag = 0x40;
    IS(EINVAL, setxattr("x", acl_access, &a, ACL_BYTES, 0));
    a.entry[4].e_tag = ACL_MASK;
    user(U2, G2, 0, 0);
    IS(EPERM, setxattr("x", acl_access, &a, ACL_BYTES, 0));
    user(U1, G1, 0, 0);
    IS(0, setxattr("x", acl_access, &a, ACL_BYTES, 0));
    IS(0, removexattr("x", acl_access));
    root();
    TRUE(getxattr("x", acl_access, &b, sizeof(b)) == -1);
    unlink("x");
}

static void acl_defaults(void)
{
    struct acl a = acl_make(7, 7, 5, 6, 7, 5), b;
    posix_about("a default ACL");
    make_as(DIRECTORY, "d", U1, G1, 0777);
    IS(0, setxattr("d", acl_default, &a, ACL_BYTES, 0));
    EQ(0777, st_of("d").st_mode & 07777);
    umask(077); /* does not count where there is a default ACL */
    user(U1, G1, 0, 0);
    IS(0, touch("d/f", 0666));
    IS(0, mkdir("d/e", 0777));
    IS(0, mkfifo("d/p", 0640));
    IS(0, symlink("t", "d/s"));
    root();
    umask(0);
    EQ(0664, st_of("d/f").st_mode & 07777);
    EQ(ACL_BYTES, getxattr("d/f", acl_access, &b, sizeof(b)));
    EQ(7, b.entry[1].e_perm);
    EQ(6, b.entry[4].e_perm);
    EQ(4, b.entry[5].e_perm);
    IS(ENODATA, getxattr("d/f", acl_default, &b, sizeof(b)));
    EQ(0775, st_of("d/e").st_mode & 07777);
    EQ(ACL_BYTES, getxattr("d/e", acl_default, &b, sizeof(b)));
    TRUE(memcmp(&a, &b, ACL_BYTES) == 0);
    EQ(ACL_BYTES, getxattr("d/e", acl_access, &b, sizeof(b)));
    EQ(0640, st_of("d/p").st_mode & 07777);
    user(U2, G2, 0, 0);
    IS(0, faccessat(AT_FDCWD, "d/f", R_OK | W_OK, AT_EACCESS));
    IS(EACCES, faccessat(AT_FDCWD, "d/p", W_OK, AT_EACCESS));
    IS(0, faccessat(AT_FDCWD, "d/p", R_OK, AT_EACCESS));
    root();
    posix_about("without the default ACL");
    IS(0, removexattr("d", acl_default));
    umask(027);
    IS(0, touch("d/g", 0666));
    umask(0);
    EQ(0640, st_of("d/g").st_mode & 07777);
    IS(ENODATA, getxattr("d/g", acl_access, &b, sizeof(b)));
    wipe("d");
}

static void xattr_acls(void)
{
    struct acl a = acl_make(7, 7, 7, 7, 7, 7);
    touch("x", 0644);
    if (setxattr("x", acl_access, &a, ACL_BYTES, 0) == -1 && errno == EOPNOTSUPP) {
        posix_check(__FILE__, __LINE__, "ACLs", !posix_is_kvfs, "are not supported");
        printf("skip: no ACLs here\n");
        return;
    }
    unlink("x");
    acl_rights();
    acl_changes();
    acl_defaults();
}

const struct posix_family posix_xattr[] = {
    {"xattr", xattr_all}, {"xattr_rights", xattr_rights}, {"acl", xattr_acls}, {NULL, NULL}};
