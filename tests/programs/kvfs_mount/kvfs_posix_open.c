/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* open: rights, flags, execution. */
#include "kvfs_posix.h"

/* The caller: 0 the owner, 1 the group, 2 by a supplementary group, 3 others. */
static void open_be(int who)
{
    static const uid_t uid[] = {U1, U2, U2, U2};
    static const gid_t gid[] = {G2, G1, G2, G2}, more[] = {0, 0, G1, G3};
    user(uid[who], gid[who], more[who], 0);
}

static mode_t open_mode(int who, int bits)
{
    int shift = who == 0 ? 6 : who == 3 ? 0 : 3;
    return (mode_t)((bits << shift) | ((~bits & 7) * (0111 & ~(1 << shift))));
}

static void open_rights(enum posix_type t)
{
    static const int flags[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC, O_WRONLY | O_TRUNC};
    static const int needs[] = {4, 2, 6, 6, 2};
    for (int who = 0; who < 4; who++) {
        for (int bits = 0; bits < 8; bits++) {
            make_as(t, "x", U1, G1, open_mode(who, bits));
            for (int f = 0; f < (t == REGULAR ? 5 : 3); f++) {
                posix_about("open of a %s 0%o, flags 0%o, by caller %d", posix_type_name[t],
                            open_mode(who, bits), flags[f], who);
                int expected = (bits & needs[f]) == needs[f] ? 0 : EACCES;
                if (t == DIRECTORY && needs[f] & 2) {
                    expected = EISDIR;
                } else if (t == FIFO && !expected && flags[f] == O_WRONLY) {
                    expected = ENXIO;
                }
                open_be(who);
                IS(expected, open_close("x", flags[f] | O_NONBLOCK, 0));
                root();
            }
            posix_about("access to a %s 0%o by caller %d", posix_type_name[t], open_mode(who, bits),
                        who);
            for (int a = 1; a < 8; a++) {
                open_be(who);
                IS((bits & a) == a ? 0 : EACCES, faccessat(AT_FDCWD, "x", a, AT_EACCESS));
                root();
            }
            destroy(t, "x");
        }
    }
}

/* What a folder's rights let be done in it. */
static void open_folder_rights(void)
{
    for (int who = 0; who < 4; who++) {
        for (int bits = 0; bits < 8; bits++) {
            int search = bits & 1 ? 0 : EACCES, change = (bits & 3) == 3 ? 0 : EACCES;
            posix_about("in a folder 0%o by caller %d", open_mode(who, bits), who);
            mkdir("d", 0755);
            make_as(REGULAR, "d/f", U1, G1, 0666);
            make_as(DIRECTORY, "d/e", U1, G1, 0777);
            make_as(REGULAR, "d/g", U2, G2, 0666);
            chown("d", U1, G1);
            chmod("d", open_mode(who, bits));
            open_be(who);
            IS(search, faccessat(AT_FDCWD, "d/f", F_OK, AT_EACCESS));
            IS(search, open_close("d/f", O_RDWR, 0));
            IS(search, lstat("d/f", &(struct stat){.st_size = 0}));
            IS(bits & 4 ? 0 : EACCES, open_close("d", O_RDONLY | O_DIRECTORY, 0));
            IS(change, touch("d/new", 0644));
            IS(change, mkdir("d/newd", 0755));
            IS(change, symlink("t", "d/news"));
            IS(change, mkfifo("d/newf", 0644));
            IS(change, rename("d/f", "d/h"));
            IS(change, unlink(change ? "d/f" : "d/h"));
            IS(change, rmdir("d/e"));
            IS(search, chdir("d"));
            root();
            if (!search && chdir("..") == -1) {
                TRUE(0);
            }
            EQ(change ? 1 : 0, access("d/f", F_OK) == 0);
            wipe("d");
        }
    }
}

static void open_all_rights(void)
{
    open_rights(REGULAR);
    open_rights(DIRECTORY);
    open_rights(FIFO);
    open_folder_rights();
}

static void open_flags(void)
{
    char text[64];
    posix_about("O_EXCL");
    for (int t = 0; t < TYPES; t++) {
        make((enum posix_type)t, "x");
        IS(EEXIST, open_close("x", O_CREAT | O_EXCL | O_RDWR, 0644));
        destroy((enum posix_type)t, "x");
    }
    posix_about("O_CREAT of an existing file");
    make_as(REGULAR, "x", U1, G1, 0640);
    CHANGES(0, open_close("x", O_CREAT | O_RDWR, 0777), {.path = ".", .change = ""},
            {.path = "x", .change = ""});
    EQ(0640, st_of("x").st_mode & 07777);
    mkdir("d", 0755);
    IS(EISDIR, open_close("d", O_CREAT | O_RDONLY, 0644));
    IS(EISDIR, open_close("d", O_CREAT | O_WRONLY, 0644));
    IS(ENOTDIR, open_close("x", O_RDONLY | O_DIRECTORY, 0));
    posix_about("O_TRUNC");
    fill("x", "some bytes");
    CHANGES(0, open_close("x", O_WRONLY | O_TRUNC, 0), {.path = "x", .change = "mc"});
    EQ(0, st_of("x").st_size);
    fill("x", "some bytes");
    chmod("x", 0444);
    user(U2, G2, 0, 0);
    IS(EACCES, open_close("x", O_RDONLY | O_TRUNC, 0));
    root();
    EQ(10, st_of("x").st_size);
    posix_about("O_CREAT with a mode that its maker may not use");
    user(U1, G1, 0, 0);
    int fd = open("locked", O_CREAT | O_RDWR | O_CLOEXEC, 0);
    TRUE(fd != -1);
    EQ(2, write(fd, "ab", 2));
    EQ(1, pread(fd, text, 1, 1));
    close(fd);
    IS(EACCES, open_close("locked", O_RDONLY, 0));
    root();
    posix_about("O_APPEND");
    unlink("x");
    int a = open("x", O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
    int b = open("x", O_WRONLY | O_APPEND | O_CLOEXEC);
    for (int i = 0; i < 20; i++) {
        EQ(2, write(i & 1 ? a : b, i & 1 ? "aa" : "bb", 2));
    }
    EQ(40, fst_of(a).st_size);
    lseek(a, 0, SEEK_SET);
    EQ(1, write(a, "x", 1));
    EQ(41, fst_of(a).st_size);
    EQ(41, lseek(a, 0, SEEK_CUR));
    close(a);
    close(b);
    posix_about("O_RDONLY and O_WRONLY");
    fd = open("x", O_RDONLY | O_CLOEXEC);
    IS(EBADF, write(fd, "x", 1));
    close(fd);
    fd = open("x", O_WRONLY | O_CLOEXEC);
    IS(EBADF, read(fd, text, 1));
    close(fd);
    fd = open("d", O_RDONLY | O_CLOEXEC);
    IS(EISDIR, read(fd, text, 1));
    close(fd);
    fd = open("x", O_PATH | O_CLOEXEC);
    IS(EBADF, read(fd, text, 1));
    EQ(41, fst_of(fd).st_size);
    close(fd);
}

static int open_appender(void *ctx)
{
    char line[32];
    int fd = open("log", O_WRONLY | O_APPEND | O_CLOEXEC);
    memset(line, 'a' + *(int *)ctx, sizeof(line));
    for (int i = 0; i < 200; i++) {
        if (write(fd, line, sizeof(line)) != (ssize_t)sizeof(line)) {
            return 1;
        }
    }
    return 0;
}

/* Appends of several processes: each is whole, none is lost. */
static void open_append_together(void)
{
    static char all[4 * 200 * 32 + 1];
    pid_t pid[4];
    touch("log", 0644);
    fflush(stdout);
    for (int i = 0; i < 4; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            _exit(open_appender(&i));
        }
    }
    for (int i = 0; i < 4; i++) {
        int status = 1;
        waitpid(pid[i], &status, 0);
        EQ(0, status);
    }
    int fd = open("log", O_RDONLY | O_CLOEXEC), counts[4] = {0}, whole = 1;
    EQ(sizeof(all) - 1, read(fd, all, sizeof(all)));
    close(fd);
    for (size_t i = 0; i + 32 < sizeof(all); i += 32) {
        for (size_t k = 1; k < 32; k++) {
            whole &= all[i + k] == all[i];
        }
        if (all[i] >= 'a' && all[i] < 'e') {
            counts[all[i] - 'a']++;
        }
    }
    TRUE(whole);
    for (int i = 0; i < 4; i++) {
        EQ(200, counts[i]);
    }
}

static int open_excl_racer(void *ctx)
{
    char name[16];
    int won = 0;
    (void)ctx;
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "race%d", i);
        int fd = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
        won += fd != -1;
        if (fd != -1) {
            close(fd);
        }
    }
    return won;
}

static void open_exclusive_together(void)
{
    pid_t pid[4];
    int won = 0;
    fflush(stdout);
    for (int i = 0; i < 4; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            _exit(open_excl_racer(NULL));
        }
    }
    for (int i = 0; i < 4; i++) {
        int status = 0;
        waitpid(pid[i], &status, 0);
        won += WEXITSTATUS(status);
    }
    posix_about("four processes, a hundred names, each made once");
    EQ(100, won);
}

/* ---- Execution ---- */

static int open_copy(const char *from, const char *to)
{
    static char part[65536];
    int a = open(from, O_RDONLY | O_CLOEXEC), b = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    ssize_t n = 0;
    while (a != -1 && b != -1 && (n = read(a, part, sizeof(part))) > 0) {
        if (write(b, part, (size_t)n) != n) {
            n = -1;
            break;
        }
    }
    close(a);
    close(b);
    return a == -1 || b == -1 || n < 0 ? -1 : 0;
}

static int open_exec(void *ctx)
{
    const char *const *args = ctx;
    execl(args[0], args[0], args[1], (char *)NULL);
    return errno;
}

static void open_execute(void)
{
    const char *run[] = {"./sleep", "0"};
    const char *sleeper[] = {"./sleep", "30"};
    posix_about("a program");
    if (open_copy("/bin/sleep", "sleep") == -1) {
        printf("skip: no /bin/sleep to run\n");
        return;
    }
    EQ(0, in_child(open_exec, run));
    chmod("sleep", 0644);
    EQ(EACCES, in_child(open_exec, run));
    chmod("sleep", 0755);
    int fd = open("sleep", O_WRONLY | O_CLOEXEC);
    EQ(ETXTBSY, in_child(open_exec, run));
    close(fd);
    posix_about("a running program");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(open_exec(sleeper));
    }
    char link_path[64], target[PATH_MAX] = "";
    snprintf(link_path, sizeof(link_path), "/proc/%d/exe", (int)pid);
    for (int i = 0; i < 200 && !strstr(target, "/open_execute/sleep"); i++) {
        posix_tick();
        if (readlink(link_path, target, sizeof(target) - 1) == -1) {
            target[0] = 0;
        }
    }
    IS(ETXTBSY, open_close("sleep", O_WRONLY, 0));
    IS(ETXTBSY, open_close("sleep", O_RDWR, 0));
    IS(ETXTBSY, truncate("sleep", 1));
    IS(0, open_close("sleep", O_RDONLY, 0));
    IS(0, unlink("sleep"));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

const struct posix_family posix_open[] = {
    {"rights", open_all_rights},      {"open_flags", open_flags},
    {"append", open_append_together}, {"exclusive", open_exclusive_together},
    {"open_execute", open_execute},   {NULL, NULL}};
