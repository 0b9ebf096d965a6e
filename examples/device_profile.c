/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "device_profile.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PROFILE_HEAD "snicstore devices "
#define PROFILE_VERSION 1
/* The largest file that save writes, and some. */
#define PROFILE_BYTES_MAX (EX_DEVICES_MAX * (EX_DEVICE_NAME_MAX + 160) + 256)
#define PROFILE_FIELDS 6

/* FS_IOC_GETFSUUID, Linux 6.9. */
struct profile_uuid {
    uint8_t len;
    uint8_t uuid[16];
};
#define PROFILE_GETFSUUID _IOR(0x15, 0, struct profile_uuid)

static int profile_why(char *why, const char *format, ...) SNIC_PRINTF(2, 3);
static int profile_why(char *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, EX_PROFILE_WHY_MAX, format, args);
    va_end(args);
    return -1;
}

/* ---- Names ---- */

/* Append @p text; bytes that a line of the file cannot have, as %XX. -1: no room. */
static int name_add(char *name, const char *text)
{
    size_t at = strlen(name);
    for (; *text != 0; text++) {
        unsigned char c = (unsigned char)*text;
        int plain = c > 31 && c != 127 && c != '%';
        if (at + 4 > EX_DEVICE_NAME_MAX)
            return -1;
        if (plain)
            name[at++] = (char)c;
        else
            at += (size_t)snprintf(name + at, EX_DEVICE_NAME_MAX - at, "%%%02X", c);
    }
    name[at] = 0;
    return 0;
}

/* The first line of a file in sysfs, without spaces at its ends; empty: there is none. */
static void name_attribute(const char *folder, const char *file, char *out, size_t size)
{
    char path[PATH_MAX];
    char line[512] = "";
    const char *from = line;
    int n = snprintf(path, sizeof(path), "%s/%s", folder, file);
    out[0] = 0;
    FILE *f = n > 0 && (size_t)n < sizeof(path) ? fopen(path, "re") : NULL;
    if (f == NULL)
        return;
    if (fgets(line, sizeof(line), f) == NULL)
        line[0] = 0;
    (void)fclose(f);
    size_t length = strlen(line);
    while (length > 0 && isspace((unsigned char)line[length - 1]))
        line[--length] = 0;
    while (isspace((unsigned char)*from))
        from++;
    (void)snprintf(out, size, "%s", from);
}

static int name_file(const char *path, char *name, char *why)
{
    struct profile_uuid u = {0};
    char id[40] = "";
    char real[PATH_MAX];
    struct statfs s;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || realpath(path, real) == NULL || fstatfs(fd, &s) != 0) {
        int error = errno;
        if (fd >= 0)
            (void)close(fd);
        return profile_why(why, "%s: %s", path, strerror(error));
    }
    if (ioctl(fd, PROFILE_GETFSUUID, &u) == 0 && u.len == sizeof(u.uuid)) {
        for (size_t i = 0; i < sizeof(u.uuid); i++)
            (void)snprintf(id + 2 * i, sizeof(id) - 2 * i, "%02x", u.uuid[i]);
    } else {
        uint32_t part[2];
        SNIC_STATIC_ASSERT(sizeof(part) == sizeof(s.f_fsid), "two words");
        memcpy(part, &s.f_fsid, sizeof(part));
        (void)snprintf(id, sizeof(id), "%08" PRIx32 "%08" PRIx32, part[0], part[1]);
        if (part[0] == 0 && part[1] == 0) {
            (void)close(fd);
            return profile_why(why, "%s: its file system has no identity", path);
        }
    }
    (void)close(fd);
    (void)snprintf(name, EX_DEVICE_NAME_MAX, "file %s ", id);
    return name_add(name, real) == 0 ? 0 : profile_why(why, "%s: the path is too long", path);
}

/* Of the block device @p number. Partitions count as their disk. */
static int name_disk(const char *path, dev_t number, char *name, char *why)
{
    char folder[80];
    char text[512];
    char serial[512];
    const char *up = "";
    (void)snprintf(folder, sizeof(folder), "/sys/dev/block/%u:%u", major(number), minor(number));
    name_attribute(folder, "loop/backing_file", text, sizeof(text));
    if (text[0] != 0)
        return name_file(text, name, why);
    name_attribute(folder, "partition", text, sizeof(text));
    if (text[0] != 0)
        up = "/..";
    (void)snprintf(folder, sizeof(folder), "/sys/dev/block/%u:%u%s", major(number), minor(number),
                   up);
    name_attribute(folder, "device/model", text, sizeof(text));
    name_attribute(folder, "device/serial", serial, sizeof(serial));
    if (serial[0] == 0)
        name_attribute(folder, "serial", serial, sizeof(serial));
    if (serial[0] == 0)
        name_attribute(folder, "device/wwid", serial, sizeof(serial));
    if (serial[0] == 0)
        name_attribute(folder, "dm/uuid", serial, sizeof(serial));
    if (serial[0] == 0)
        return profile_why(why, "%s: the device has no serial number", path);
    (void)snprintf(name, EX_DEVICE_NAME_MAX, "disk ");
    if (name_add(name, text[0] != 0 ? text : "-") != 0 || name_add(name, " ") != 0 ||
        name_add(name, serial) != 0)
        return profile_why(why, "%s: model and serial number are too long", path);
    return 0;
}

int ex_device_name(const char *path, char name[EX_DEVICE_NAME_MAX], char why[EX_PROFILE_WHY_MAX])
{
    struct stat s;
    name[0] = 0;
    why[0] = 0;
    if (stat(path, &s) != 0)
        return profile_why(why, "%s: %s", path, strerror(errno));
    if (S_ISBLK(s.st_mode))
        return name_disk(path, s.st_rdev, name, why);
    if (S_ISREG(s.st_mode))
        return name_file(path, name, why);
    return profile_why(why, "%s: neither a file nor a block device", path);
}

/* ---- The file ---- */

struct profile_file {
    uint32_t version; /* 0: there is no file */
    uint32_t count;
    char *line[EX_DEVICES_MAX]; /* of each device, in text, without its end */
    char text[PROFILE_BYTES_MAX + 1];
};

/* -1, with errno; else the bytes that were read. */
static ssize_t profile_read(const char *file, char *text)
{
    size_t at = 0;
    ssize_t n = 0;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    do {
        n = read(fd, text + at, PROFILE_BYTES_MAX + 1 - at);
        at += n > 0 ? (size_t)n : 0;
    } while ((n > 0 && at <= PROFILE_BYTES_MAX) || (n < 0 && errno == EINTR));
    int error = errno;
    (void)close(fd);
    errno = error;
    return n < 0 ? -1 : (ssize_t)at;
}

/* The device's name in a line, and its numbers in @p v; NULL: it is none. */
static const char *profile_parse(const char *line, uint64_t v[PROFILE_FIELDS])
{
    for (unsigned i = 0; i < PROFILE_FIELDS; i++) {
        char *end;
        if (!isdigit((unsigned char)*line))
            return NULL;
        errno = 0;
        v[i] = strtoull(line, &end, 10);
        if (errno != 0 || *end != ' ')
            return NULL;
        line = end + 1;
    }
    return *line != 0 ? line : NULL;
}

/* Cut the text into lines. 0; -1: damaged, or of another version (f->version then). */
static int profile_cut(const char *file, struct profile_file *f, size_t size, char *why)
{
    char *end = NULL;
    char *last = NULL;
    uint64_t v[PROFILE_FIELDS];
    f->version = PROFILE_VERSION;
    if (memchr(f->text, 0, size) != NULL || strncmp(f->text, PROFILE_HEAD, strlen(PROFILE_HEAD)))
        return profile_why(why, "%s is damaged: it does not begin with \"%s1\"", file,
                           PROFILE_HEAD);
    unsigned long version = strtoul(f->text + strlen(PROFILE_HEAD), &end, 10);
    if (version == 0 || version > UINT32_MAX || *end != '\n')
        return profile_why(why, "%s is damaged: its first line has no version", file);
    f->version = (uint32_t)version;
    if (version != PROFILE_VERSION)
        return profile_why(why, "%s is of version %lu, and this program knows version %d", file,
                           version, PROFILE_VERSION);
    for (char *p = f->text; p != NULL && *p != 0; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        last = p;
    if (f->text[size - 1] != '\n' || strncmp(last, "end ", 4) != 0 || strlen(last) != 13)
        return profile_why(why, "%s is damaged: it has no end", file);
    uint32_t crc = snic_crc32c(0, f->text, (size_t)(last - f->text));
    if (strtoul(last + 4, &end, 16) != crc || *end != '\n')
        return profile_why(why, "%s is damaged: wrong checksum", file);
    *last = 0;
    for (char *p = strchr(f->text, '\n') + 1; *p != 0;) {
        char *stop = strchr(p, '\n');
        *stop = 0;
        if (f->count == EX_DEVICES_MAX || profile_parse(p, v) == NULL) {
            f->count = 0;
            return profile_why(why, "%s is damaged: \"%.60s\"", file, p);
        }
        f->line[f->count++] = p;
        p = stop + 1;
    }
    return 0;
}

static int profile_open(const char *file, struct profile_file *f, char *why)
{
    f->version = 0;
    f->count = 0;
    why[0] = 0;
    ssize_t n = profile_read(file, f->text);
    if (n < 0)
        return errno == ENOENT ? 0 : profile_why(why, "%s: %s", file, strerror(errno));
    f->version = PROFILE_VERSION;
    if (n > PROFILE_BYTES_MAX)
        return profile_why(why, "%s is damaged: larger than %d bytes", file, PROFILE_BYTES_MAX);
    f->text[n] = 0;
    return profile_cut(file, f, (size_t)n, why);
}

int ex_profile_load(const char *file, const char *name, struct snic_gimbal_profile *out,
                    char why[EX_PROFILE_WHY_MAX])
{
    uint64_t v[PROFILE_FIELDS];
    struct profile_file *f = malloc(sizeof(*f));
    if (f == NULL)
        return profile_why(why, "%s: out of memory", file);
    int r = profile_open(file, f, why);
    for (uint32_t i = 0; r == 0 && i < f->count; i++) {
        if (strcmp(profile_parse(f->line[i], v), name) != 0)
            continue;
        *out = (struct snic_gimbal_profile){.opts_size = sizeof(*out),
                                            .read_ns = v[0],
                                            .write_ns = v[1],
                                            .read_rate = {v[2], v[3]},
                                            .write_rate = {v[4], v[5]}};
        free(f);
        return 0;
    }
    free(f);
    return r == 0 ? 1 : -1;
}

/* All lines but the device's, the oldest not if there are too many, then its own. */
static int profile_write(FILE *to, const struct profile_file *f, const char *name,
                         const struct snic_gimbal_profile *p)
{
    char text[EX_DEVICE_NAME_MAX + 160];
    uint32_t crc = 0;
    uint64_t v[PROFILE_FIELDS];
    uint32_t first = f->count == EX_DEVICES_MAX;
    for (uint32_t i = 0; first != 0 && i < f->count; i++)
        if (strcmp(profile_parse(f->line[i], v), name) == 0)
            first = 0;
    for (uint32_t i = 0; i < f->count + 2; i++) {
        int n = 0;
        if (i == 0)
            n = snprintf(text, sizeof(text), "%s%d\n", PROFILE_HEAD, PROFILE_VERSION);
        else if (i == f->count + 1)
            n = snprintf(text, sizeof(text),
                         "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                         " %s\n",
                         p->read_ns, p->write_ns, p->read_rate[0], p->read_rate[1],
                         p->write_rate[0], p->write_rate[1], name);
        else if (i - 1 >= first && strcmp(profile_parse(f->line[i - 1], v), name) != 0)
            n = snprintf(text, sizeof(text), "%s\n", f->line[i - 1]);
        if (n < 0 || (size_t)n >= sizeof(text))
            return -1;
        crc = snic_crc32c(crc, text, (size_t)n);
        if (fwrite(text, 1, (size_t)n, to) != (size_t)n)
            return -1;
    }
    return fprintf(to, "end %08" PRIx32 "\n", crc) < 0 ? -1 : 0;
}

/* The new file beside the old one, and in its place, with its mode: behind a symbolic link, if
 * @p link is one. A power loss may leave neither, or a part, which its checksum shows: it is a
 * hint, and an event loop does not wait for it to be durable. */
static int profile_replace(const char *link, const struct profile_file *f, const char *name,
                           const struct snic_gimbal_profile *p)
{
    char real[PATH_MAX];
    char path[PATH_MAX];
    struct stat old;
    const char *file = realpath(link, real) != NULL ? real : link;
    int there = stat(file, &old) == 0;
    int n = snprintf(path, sizeof(path), "%s.XXXXXX", file);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    FILE *to = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (to == NULL) {
        int error = errno;
        if (fd >= 0) {
            (void)close(fd);
            (void)unlink(path);
        }
        errno = error;
        return -1;
    }
    int r = profile_write(to, f, name, p);
    if (r == 0 && there && fchmod(fd, old.st_mode & 0666) != 0)
        r = -1;
    if (fclose(to) != 0)
        r = -1;
    if (r == 0)
        r = rename(path, file);
    if (r != 0) {
        int error = errno;
        (void)unlink(path);
        errno = error;
    }
    return r;
}

int ex_profile_save(const char *file, const char *name, const struct snic_gimbal_profile *p,
                    char why[EX_PROFILE_WHY_MAX])
{
    static pthread_mutex_t lock =
        PTHREAD_MUTEX_INITIALIZER; /* a read and a write belong together */
    struct profile_file *f = malloc(sizeof(*f));
    if (f == NULL)
        return profile_why(why, "%s: out of memory", file);
    (void)pthread_mutex_lock(&lock);
    int r = profile_open(file, f, why);
    if (r == 0 || f->version == PROFILE_VERSION) {
        why[0] = 0;
        r = profile_replace(file, f, name, p);
        if (r != 0)
            (void)profile_why(why, "%s: %s", file, strerror(errno));
    }
    (void)pthread_mutex_unlock(&lock);
    free(f);
    return r;
}
