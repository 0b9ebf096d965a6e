/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What programs keep of devices: names, the file, every damage of it. */
#include "device_profile.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static char store[96];
static char why[EX_PROFILE_WHY_MAX];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/device_profile.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(store, sizeof(store), "%s/devices", folder);
    return 0;
}

static int teardown(void **state)
{
    char command[160];
    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

static struct snic_gimbal_profile profile(uint64_t n)
{
    return (struct snic_gimbal_profile){.opts_size = sizeof(struct snic_gimbal_profile),
                                        .read_ns = 1000 + n,
                                        .write_ns = 2000 + n,
                                        .read_rate = {3000 + n, 4000 + n},
                                        .write_rate = {5000 + n, 6000 + n}};
}

static void assert_kept(const char *name, uint64_t n)
{
    struct snic_gimbal_profile want = profile(n);
    struct snic_gimbal_profile got = {0};
    assert_int_equal(ex_profile_load(store, name, &got, why), 0);
    assert_memory_equal(&got, &want, sizeof(want));
}

static size_t read_store(char *text, size_t size)
{
    FILE *f = fopen(store, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, size, f);
    fclose(f);
    return n;
}

static void write_store(const char *text, size_t n)
{
    FILE *f = fopen(store, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void test_device_profile_kept_and_replaced(void **state)
{
    struct snic_gimbal_profile p = profile(1);
    struct snic_gimbal_profile q = profile(2);
    (void)state;
    assert_int_equal(ex_profile_load(store, "disk A 1", &p, why), 1); /* no file */
    assert_int_equal(ex_profile_save(store, "disk A 1", &p, why), 0);
    assert_int_equal(ex_profile_save(store, "disk B with spaces 7", &q, why), 0);
    assert_kept("disk A 1", 1);
    assert_kept("disk B with spaces 7", 2);
    assert_int_equal(ex_profile_load(store, "disk A", &p, why), 1);
    q = profile(3);
    assert_int_equal(ex_profile_save(store, "disk A 1", &q, why), 0);
    assert_kept("disk A 1", 3);
    assert_kept("disk B with spaces 7", 2);
}

static void test_device_profile_oldest_makes_room(void **state)
{
    char name[32];
    (void)state;
    for (uint64_t i = 0; i < EX_DEVICES_MAX; i++) {
        struct snic_gimbal_profile p = profile(i);
        snprintf(name, sizeof(name), "disk - %d", (int)i);
        assert_int_equal(ex_profile_save(store, name, &p, why), 0);
    }
    struct snic_gimbal_profile p = profile(500);
    assert_int_equal(ex_profile_save(store, "disk - 1", &p, why), 0); /* it is there: all stay */
    assert_kept("disk - 0", 0);
    assert_int_equal(ex_profile_save(store, "disk - new", &p, why), 0);
    assert_int_equal(ex_profile_load(store, "disk - 0", &p, why), 1);
    assert_kept("disk - 1", 500);
    assert_kept("disk - 2", 2);
    assert_kept("disk - new", 500);
}

/* Each byte another, and every length: ignored with a reason, then replaced. */
static void test_device_profile_damaged_ignored(void **state)
{
    char text[512];
    struct snic_gimbal_profile p = profile(1);
    struct snic_gimbal_profile got;
    (void)state;
    assert_int_equal(ex_profile_save(store, "disk A 1", &p, why), 0);
    size_t n = read_store(text, sizeof(text));
    for (size_t i = 0; i < 2 * n; i++) {
        char bad[512];
        memcpy(bad, text, n);
        bad[i % n] ^= 0x01;
        write_store(bad, i < n ? n : i - n);
        assert_int_equal(ex_profile_load(store, "disk A 1", &got, why), -1);
        assert_non_null(strstr(why, store));
    }
    assert_int_equal(ex_profile_save(store, "disk A 1", &p, why), 0);
    assert_kept("disk A 1", 1);
}

static void test_device_profile_other_version_stays(void **state)
{
    static const char text[] = "snicstore devices 2\nwhatever\n";
    char after[64];
    struct snic_gimbal_profile p = profile(1);
    (void)state;
    write_store(text, sizeof(text) - 1);
    assert_int_equal(ex_profile_load(store, "disk A 1", &p, why), -1);
    assert_non_null(strstr(why, "version 2"));
    assert_int_equal(ex_profile_save(store, "disk A 1", &p, why), -1);
    assert_int_equal(read_store(after, sizeof(after)), sizeof(text) - 1);
}

/* Its mode stays, and a symbolic link to it. */
static void test_device_profile_file_is_the_same(void **state)
{
    char link[112];
    struct stat s;
    struct snic_gimbal_profile p = profile(1);
    (void)state;
    snprintf(link, sizeof(link), "%s/link", folder);
    assert_int_equal(symlink("devices", link), 0);
    assert_int_equal(ex_profile_save(store, "disk A 1", &p, why), 0);
    assert_int_equal(chmod(store, 0640), 0);
    p = profile(2);
    assert_int_equal(ex_profile_save(link, "disk A 1", &p, why), 0);
    assert_kept("disk A 1", 2);
    assert_int_equal(lstat(link, &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_int_equal(stat(store, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0640);
}

static void test_device_profile_unwritable_folder_named(void **state)
{
    struct snic_gimbal_profile p = profile(1);
    (void)state;
    assert_int_equal(ex_profile_save("/proc/none/devices", "disk A 1", &p, why), -1);
    assert_non_null(strstr(why, "/proc/none/devices"));
}

static void test_device_profile_names(void **state)
{
    char name[2][EX_DEVICE_NAME_MAX];
    char path[128];
    struct snic_gimbal_profile p = profile(9);
    (void)state;
    snprintf(path, sizeof(path), "%s/a%%b\nc", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    if (ex_device_name(path, name[0], why) != 0) {
        assert_non_null(strstr(why, "no identity"));
        skip();
    }
    assert_int_equal(strncmp(name[0], "file ", 5), 0);
    assert_non_null(strstr(name[0], "/a%25b%0Ac"));
    assert_int_equal(ex_device_name(path, name[1], why), 0);
    assert_string_equal(name[0], name[1]);
    assert_int_equal(ex_profile_save(store, name[0], &p, why), 0);
    assert_kept(name[0], 9);
    assert_int_equal(ex_device_name(folder, name[0], why), -1);
    assert_non_null(strstr(why, "neither"));
    assert_int_equal(ex_device_name("/none/such", name[0], why), -1);
    assert_non_null(strstr(why, "/none/such"));
}

#define ONE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        ONE(test_device_profile_kept_and_replaced),
        ONE(test_device_profile_oldest_makes_room),
        ONE(test_device_profile_damaged_ignored),
        ONE(test_device_profile_other_version_stays),
        ONE(test_device_profile_file_is_the_same),
        ONE(test_device_profile_unwritable_folder_named),
        ONE(test_device_profile_names),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
