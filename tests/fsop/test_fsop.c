/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The vocabulary of file systems: numbers, names and the form of requests.
 */
#include "support.h"

#include "snicstore/fsop.h"

#include <string.h>

/* The numbers travel: another one is another operation for the other processor. */
static void test_fsop_kinds_have_fixed_numbers(void **state)
{
    static const char *const names[] = {
        "?",        "lookup",    "forget",      "getattr", "setattr",    "readlink", "mknod",
        "create",   "mkdir",     "symlink",     "unlink",  "rmdir",      "rename",   "link",
        "open",     "release",   "flush",       "fsync",   "read",       "write",    "fallocate",
        "seek",     "copy",      "opendir",     "readdir", "releasedir", "statfs",   "setxattr",
        "getxattr", "listxattr", "removexattr", "access",  "getlk",      "setlk",    "flock",
        "syncfs",   "resolve"};
    (void)state;
    assert_int_equal(SNIC_FSOP_WIRE_KINDS, SNIC_COUNTOF(names));
    for (uint32_t i = 0; i < SNIC_COUNTOF(names); i++)
        assert_string_equal(snic_fsop_name(i), names[i]);
    for (uint32_t i = SNIC_FSOP_WIRE_KINDS; i < SNIC_FSOP_KINDS; i++)
        assert_string_not_equal(snic_fsop_name(i), "?");
    assert_string_equal(snic_fsop_name(SNIC_FSOP_KINDS), "?");
    assert_string_equal(snic_fsop_name(UINT32_MAX), "?");
}

/* Attributes travel inside READDIR's entries. */
static void test_fsop_entries_have_a_fixed_layout(void **state)
{
    (void)state;
    assert_int_equal(offsetof(struct snic_fsop_attr, mode), 32);
    assert_int_equal(offsetof(struct snic_fsop_attr, atime), 56);
    assert_int_equal(offsetof(struct snic_fsop_attr, parent), 120);
    assert_int_equal(offsetof(struct snic_fsop_attr, version), 144);
    assert_int_equal(offsetof(struct snic_fsop_dirent, cookie), 16);
    assert_int_equal(offsetof(struct snic_fsop_dirent, attr), 32);
}

/* A link that carried data in the wrong direction would answer with bytes of another request. */
static void test_fsop_data_has_one_direction(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SNIC_FSOP_KINDS + 2; i++) {
        int want = i == 0 || i >= SNIC_FSOP_KINDS                    ? SNIC_ENOTSUP
                   : i == SNIC_FSOP_WRITE || i == SNIC_FSOP_SETXATTR ? 1
                   : i == SNIC_FSOP_READ || i == SNIC_FSOP_READDIR || i == SNIC_FSOP_READLINK ||
                           i == SNIC_FSOP_GETXATTR || i == SNIC_FSOP_LISTXATTR
                       ? 2
                       : 0;
        assert_int_equal(snic_fsop_data(i), want);
    }
}

static int form(uint32_t kind, uint32_t flags, uint32_t name, uint32_t name2, uint32_t groups)
{
    struct snic_fsop op = {.kind = kind, .flags = flags, .name_size = name, .name2_size = name2};
    op.cred.group_count = groups;
    return snic_fsop_validate(&op);
}

/* An unknown bit may be a flag of a later version: ignoring it would change what a request means.
 */
static void test_fsop_form_flags_of_others_refused(void **state)
{
    static const struct {
        uint32_t flag;
        uint32_t kinds[6];
    } own[] = {
        {SNIC_FSOP_READDIR_PLUS, {SNIC_FSOP_READDIR}},
        {SNIC_FSOP_LOCK_WAIT, {SNIC_FSOP_SETLK, SNIC_FSOP_FLOCK}},
        {SNIC_FSOP_HOLD, {SNIC_FSOP_UNLINK, SNIC_FSOP_RMDIR, SNIC_FSOP_RENAME}},
        {SNIC_FSOP_EXCL, {SNIC_FSOP_CREATE, SNIC_FSOP_OPEN, SNIC_FSOP_OPENDIR}},
        {SNIC_FSOP_APPEND, {SNIC_FSOP_CREATE, SNIC_FSOP_OPEN, SNIC_FSOP_OPENDIR, SNIC_FSOP_WRITE}},
        {1U << 18, {SNIC_FSOP_RENAME, SNIC_FSOP_FALLOCATE}},
        {1U << 17, {SNIC_FSOP_RENAME, SNIC_FSOP_FALLOCATE, SNIC_FSOP_SEEK, SNIC_FSOP_SETXATTR}},
        {1U << 13, {0}},
        {1U << 31, {0}},
    };
    (void)state;
    for (uint32_t kind = 1; kind < SNIC_FSOP_KINDS; kind++) {
        assert_int_equal(form(kind, SNIC_FSOP_CHECKED, 0, 0, 0), 0);
        for (size_t i = 0; i < SNIC_COUNTOF(own); i++) {
            int want = SNIC_EINVAL;
            for (size_t j = 0; j < SNIC_COUNTOF(own[i].kinds); j++)
                want = own[i].kinds[j] == kind ? 0 : want;
            assert_int_equal(form(kind, own[i].flag, 0, 0, 0), want);
        }
    }
}

/* A name that an operation does not have would travel, and nothing would look at it. */
static void test_fsop_form_names(void **state)
{
    (void)state;
    for (uint32_t kind = 1; kind < SNIC_FSOP_KINDS; kind++) {
        int one = form(kind, 0, SNIC_FSOP_NAME_MAX, 0, 0);
        int two = form(kind, 0, 0, SNIC_FSOP_NAME_MAX, 0);
        int path = kind == SNIC_FSOP_RESOLVE || kind == SNIC_FSOP_MKFS;
        assert_true(one == 0 || one == SNIC_EINVAL);
        assert_true(two == 0 || two == SNIC_EINVAL);
        assert_int_equal(two == 0, kind == SNIC_FSOP_RENAME || kind == SNIC_FSOP_LINK ||
                                       kind == SNIC_FSOP_SYMLINK);
        if (one == 0)
            assert_int_equal(form(kind, 0, SNIC_FSOP_NAME_MAX + 1, 0, 0),
                             path ? 0 : SNIC_ENAMETOOLONG);
    }
    assert_int_equal(form(SNIC_FSOP_LINK, 0, 1, 1, 0), SNIC_EINVAL);
    assert_int_equal(form(SNIC_FSOP_RENAME, 0, 1, SNIC_FSOP_NAME_MAX + 1, 0), SNIC_ENAMETOOLONG);
    assert_int_equal(form(SNIC_FSOP_SYMLINK, 0, 1, SNIC_FSOP_SYMLINK_MAX, 0), 0);
    assert_int_equal(form(SNIC_FSOP_SYMLINK, 0, 1, SNIC_FSOP_SYMLINK_MAX + 1, 0),
                     SNIC_ENAMETOOLONG);
}

/* Kinds and groups, at the last good number and behind it. */
static void test_fsop_form_kinds_and_groups(void **state)
{
    (void)state;
    assert_int_equal(form(0, 0, 0, 0, 0), SNIC_ENOTSUP);
    assert_int_equal(form(SNIC_FSOP_KINDS, 0, 0, 0, 0), SNIC_ENOTSUP);
    assert_int_equal(form(SNIC_FSOP_KINDS - 1, 0, 0, 0, 0), 0);
    assert_int_equal(form(SNIC_FSOP_OPEN, 0, 0, 0, SNIC_FSOP_GROUPS_MAX), 0);
    assert_int_equal(form(SNIC_FSOP_OPEN, 0, 0, 0, SNIC_FSOP_GROUPS_MAX + 1), SNIC_E2BIG);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fsop_kinds_have_fixed_numbers),
        cmocka_unit_test(test_fsop_entries_have_a_fixed_layout),
        cmocka_unit_test(test_fsop_data_has_one_direction),
        cmocka_unit_test(test_fsop_form_flags_of_others_refused),
        cmocka_unit_test(test_fsop_form_names),
        cmocka_unit_test(test_fsop_form_kinds_and_groups),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
