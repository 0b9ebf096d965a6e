/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Advisory locks between processes: flock, fcntl, open file description locks. */
#include "kvfs_posix.h"
#include <signal.h>
#include <sys/file.h>
#include <sys/time.h>

/* A child that executes commands, so that locks have two owners. */
struct locks_peer {
    pid_t pid;
    int to;
    int from;
};
struct locks_order {
    int kind; /* 'f' flock, 'p' POSIX, 'o' OFD, 'g' POSIX GETLK, 'c' close, 'q' quit */
    int type;
    int wait;
    off_t start, length;
};
struct locks_answer {
    int error;
    struct flock lock;
};

static struct locks_answer locks_do(int *fd, const struct locks_order *o)
{
    struct locks_answer a = {
        .lock = {.l_type = (short)o->type, .l_start = o->start, .l_len = o->length}};
    int rc = 0;
    errno = 0;
    if (o->kind == 'f') {
        int op = o->type == F_RDLCK ? LOCK_SH : o->type == F_WRLCK ? LOCK_EX : LOCK_UN;
        rc = flock(*fd, op | (o->wait ? 0 : LOCK_NB));
    } else if (o->kind == 'c') {
        close(*fd);
        *fd = open("lock", O_RDWR | O_CLOEXEC);
    } else {
        int op = o->kind == 'g'   ? F_GETLK
                 : o->kind == 'o' ? (o->wait ? F_OFD_SETLKW : F_OFD_SETLK)
                                  : (o->wait ? F_SETLKW : F_SETLK);
        rc = fcntl(*fd, op, &a.lock);
    }
    a.error = rc == -1 ? errno : 0;
    return a;
}

static void locks_alarm(int s)
{
    (void)s;
}

static void locks_child(int from, int to)
{
    struct locks_order o;
    int fd = open("lock", O_RDWR | O_CLOEXEC);
    struct sigaction s = {.sa_handler = locks_alarm};
    sigaction(SIGALRM, &s, NULL);
    while (read(from, &o, sizeof(o)) == sizeof(o) && o.kind != 'q') {
        struct locks_answer a = locks_do(&fd, &o);
        if (write(to, &a, sizeof(a)) != sizeof(a)) {
            break;
        }
    }
    _exit(0);
}

static struct locks_peer locks_start(void)
{
    int a[2], b[2];
    if (pipe2(a, O_CLOEXEC) == -1 || pipe2(b, O_CLOEXEC) == -1) {
        TRUE(0);
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(a[1]);
        close(b[0]);
        locks_child(a[0], b[1]);
    }
    close(a[0]);
    close(b[1]);
    return (struct locks_peer){pid, a[1], b[0]};
}

static void locks_send(struct locks_peer *p, struct locks_order o)
{
    TRUE(write(p->to, &o, sizeof(o)) == sizeof(o));
}

static struct locks_answer locks_receive(struct locks_peer *p)
{
    struct locks_answer a = {.error = EPIPE};
    TRUE(read(p->from, &a, sizeof(a)) == sizeof(a));
    return a;
}

static int locks_try(struct locks_peer *p, int kind, int type, off_t start, off_t length)
{
    locks_send(p, (struct locks_order){kind, type, 0, start, length});
    return locks_receive(p).error;
}

static void locks_end(struct locks_peer *p)
{
    close(p->to);
    close(p->from);
    waitpid(p->pid, NULL, 0);
}

static int locks_mine(int fd, int kind, int type, off_t start, off_t length)
{
    struct locks_order o = {kind, type, 0, start, length};
    return locks_do(&fd, &o).error;
}

static void locks_flock(void)
{
    touch("lock", 0666);
    struct locks_peer p = locks_start();
    int fd = open("lock", O_RDWR | O_CLOEXEC), fd2 = open("lock", O_RDWR | O_CLOEXEC);
    posix_about("flock");
    EQ(0, locks_mine(fd, 'f', F_WRLCK, 0, 0));
    EQ(EAGAIN, locks_try(&p, 'f', F_RDLCK, 0, 0));
    EQ(EAGAIN, locks_try(&p, 'f', F_WRLCK, 0, 0));
    EQ(EAGAIN, locks_mine(fd2, 'f', F_RDLCK, 0, 0));
    EQ(0, locks_mine(fd, 'f', F_RDLCK, 0, 0));
    EQ(0, locks_try(&p, 'f', F_RDLCK, 0, 0));
    EQ(EAGAIN, locks_mine(fd, 'f', F_WRLCK, 0, 0));
    EQ(0, locks_try(&p, 'f', F_UNLCK, 0, 0));
    EQ(0, locks_mine(fd2, 'f', F_RDLCK, 0, 0));
    EQ(0, locks_mine(fd, 'f', F_UNLCK, 0, 0));
    EQ(0, locks_mine(fd2, 'f', F_WRLCK, 0, 0));
    posix_about("a lock goes with the last close");
    int copy = dup(fd2);
    close(fd2);
    EQ(EAGAIN, locks_try(&p, 'f', F_WRLCK, 0, 0));
    close(copy);
    for (int i = 0; i < 50 && locks_try(&p, 'f', F_WRLCK, 0, 0) != 0; i++) {
        posix_tick(); /* release of the last close need not be waited for */
    }
    EQ(0, locks_try(&p, 'f', F_WRLCK, 0, 0));
    posix_about("a lock goes with its process");
    EQ(EAGAIN, locks_mine(fd, 'f', F_WRLCK, 0, 0));
    kill(p.pid, SIGKILL);
    locks_end(&p);
    for (int i = 0; i < 50 && locks_mine(fd, 'f', F_WRLCK, 0, 0) != 0; i++) {
        posix_tick();
    }
    EQ(0, locks_mine(fd, 'f', F_WRLCK, 0, 0));
    posix_about("a flock that waits");
    p = locks_start();
    locks_send(&p, (struct locks_order){'f', F_WRLCK, 1, 0, 0});
    posix_tick();
    EQ(0, locks_mine(fd, 'f', F_UNLCK, 0, 0));
    EQ(0, locks_receive(&p).error);
    EQ(EAGAIN, locks_mine(fd, 'f', F_RDLCK, 0, 0));
    locks_end(&p);
    close(fd);
    unlink("lock");
}

/* All pairs of two ranges: they are in each other's way when they overlap and one is for writing.
 */
static void locks_ranges(int kind)
{
    static const off_t ranges[][2] = {{0, 10}, {5, 10}, {10, 10}, {0, 0},
                                      {20, 0}, {0, 1},  {9, 1},   {1LL << 40, 100}};
    enum { RANGES = sizeof(ranges) / sizeof(ranges[0]) };
    touch("lock", 0666);
    struct locks_peer p = locks_start();
    int fd = open("lock", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < RANGES * RANGES * 4; i++) {
        const off_t *a = ranges[i % RANGES], *b = ranges[i / RANGES % RANGES];
        int ta = i / RANGES / RANGES % 2 ? F_WRLCK : F_RDLCK;
        int tb = i / RANGES / RANGES / 2 ? F_WRLCK : F_RDLCK;
        off_t enda = a[1] ? a[0] + a[1] : INT64_MAX, endb = b[1] ? b[0] + b[1] : INT64_MAX;
        int clash = a[0] < endb && b[0] < enda && (ta == F_WRLCK || tb == F_WRLCK);
        posix_about("'%c' lock %d of %lld+%lld and %d of %lld+%lld", kind, ta, (long long)a[0],
                    (long long)a[1], tb, (long long)b[0], (long long)b[1]);
        EQ(0, locks_mine(fd, kind, ta, a[0], a[1]));
        EQ(clash ? EAGAIN : 0, locks_try(&p, kind, tb, b[0], b[1]));
        if (!clash) { /* its own would be in its way, if it is an open file's */
            EQ(0, locks_try(&p, kind, F_UNLCK, 0, 0));
        }
        locks_send(&p, (struct locks_order){'g', tb, 0, b[0], b[1]});
        struct locks_answer g = locks_receive(&p);
        EQ(clash ? ta : F_UNLCK, g.lock.l_type);
        if (clash) {
            EQ(a[0], g.lock.l_start);
            EQ(a[1], g.lock.l_len);
            /* FUSE cannot express that an open file, and no process, holds a lock. */
            TRUE(g.lock.l_pid == getpid() || (kind == 'o' && g.lock.l_pid <= 0));
        }
        EQ(0, locks_try(&p, kind, F_UNLCK, 0, 0));
        EQ(0, locks_mine(fd, kind, F_UNLCK, 0, 0));
    }
    locks_end(&p);
    close(fd);
    unlink("lock");
}

static void locks_split(void)
{
    touch("lock", 0666);
    struct locks_peer p = locks_start();
    int fd = open("lock", O_RDWR | O_CLOEXEC);
    posix_about("a range is split and joined");
    EQ(0, locks_mine(fd, 'p', F_WRLCK, 0, 100));
    EQ(0, locks_mine(fd, 'p', F_UNLCK, 40, 20));
    EQ(0, locks_try(&p, 'p', F_WRLCK, 40, 20));
    EQ(EAGAIN, locks_try(&p, 'p', F_WRLCK, 39, 1));
    EQ(EAGAIN, locks_try(&p, 'p', F_WRLCK, 60, 1));
    EQ(EAGAIN, locks_mine(fd, 'p', F_RDLCK, 0, 100));
    EQ(0, locks_try(&p, 'p', F_UNLCK, 0, 0));
    EQ(0, locks_mine(fd, 'p', F_RDLCK, 10, 20));
    EQ(0, locks_try(&p, 'p', F_RDLCK, 10, 20));
    EQ(EAGAIN, locks_try(&p, 'p', F_RDLCK, 9, 1));
    EQ(EAGAIN, locks_try(&p, 'p', F_RDLCK, 30, 1));
    EQ(0, locks_try(&p, 'p', F_UNLCK, 0, 0));
    posix_about("closing any descriptor gives up a process's POSIX locks");
    close(open("lock", O_RDONLY | O_CLOEXEC));
    EQ(0, locks_try(&p, 'p', F_WRLCK, 0, 0));
    EQ(0, locks_try(&p, 'p', F_UNLCK, 0, 0));
    posix_about("but not the locks of an open file");
    EQ(0, locks_mine(fd, 'o', F_WRLCK, 0, 10));
    close(open("lock", O_RDONLY | O_CLOEXEC));
    EQ(EAGAIN, locks_try(&p, 'o', F_WRLCK, 5, 1));
    EQ(EAGAIN, locks_try(&p, 'p', F_WRLCK, 5, 1));
    EQ(EAGAIN, locks_mine(fd, 'p', F_WRLCK, 5, 1));
    EQ(0, locks_mine(fd, 'o', F_UNLCK, 0, 0));
    posix_about("flock and fcntl locks do not see each other");
    EQ(0, locks_mine(fd, 'f', F_WRLCK, 0, 0));
    EQ(0, locks_try(&p, 'p', F_WRLCK, 0, 0));
    EQ(0, locks_try(&p, 'p', F_UNLCK, 0, 0));
    EQ(0, locks_mine(fd, 'f', F_UNLCK, 0, 0));
    posix_about("a lock for writing needs the file open for writing");
    int r = open("lock", O_RDONLY | O_CLOEXEC);
    EQ(EBADF, locks_mine(r, 'p', F_WRLCK, 0, 1));
    EQ(0, locks_mine(r, 'p', F_RDLCK, 0, 1));
    close(r);
    locks_end(&p);
    close(fd);
    unlink("lock");
}

static void locks_waiting(int kind)
{
    touch("lock", 0666);
    struct locks_peer p = locks_start();
    int fd = open("lock", O_RDWR | O_CLOEXEC);
    posix_about("a '%c' lock that waits is granted", kind);
    EQ(0, locks_mine(fd, kind, F_WRLCK, 0, 10));
    locks_send(&p, (struct locks_order){kind, F_WRLCK, 1, 5, 10});
    posix_tick();
    posix_tick();
    EQ(0, locks_mine(fd, kind, F_UNLCK, 0, 10));
    EQ(0, locks_receive(&p).error);
    EQ(EAGAIN, locks_mine(fd, kind, F_RDLCK, 0, 6));
    EQ(0, locks_try(&p, kind, F_UNLCK, 0, 0));
    posix_about("a '%c' lock that waits is interrupted", kind);
    EQ(0, locks_mine(fd, kind, F_WRLCK, 0, 10));
    locks_send(&p, (struct locks_order){kind, F_WRLCK, 1, 5, 10});
    for (int i = 0; i < 5; i++) {
        posix_tick();
    }
    kill(p.pid, SIGALRM);
    EQ(EINTR, locks_receive(&p).error);
    EQ(0, locks_mine(fd, kind, F_UNLCK, 0, 10));
    EQ(0, locks_mine(fd, kind, F_WRLCK, 0, 100)); /* the interrupted one was not granted */
    posix_about("a process that waits for a '%c' lock is killed", kind);
    locks_send(&p, (struct locks_order){kind, F_WRLCK, 1, 5, 10});
    for (int i = 0; i < 5; i++) {
        posix_tick();
    }
    kill(p.pid, SIGKILL);
    locks_end(&p);
    EQ(0, locks_mine(fd, kind, F_UNLCK, 0, 0));
    EQ(0, locks_mine(fd, kind, F_WRLCK, 0, 0));
    posix_about("a '%c' lock goes with its process", kind);
    EQ(0, locks_mine(fd, kind, F_UNLCK, 0, 0));
    p = locks_start();
    EQ(0, locks_try(&p, kind, F_WRLCK, 0, 0));
    EQ(EAGAIN, locks_mine(fd, kind, F_RDLCK, 0, 1));
    kill(p.pid, SIGKILL);
    locks_end(&p);
    for (int i = 0; i < 50 && locks_mine(fd, kind, F_RDLCK, 0, 1) != 0; i++) {
        posix_tick();
    }
    EQ(0, locks_mine(fd, kind, F_RDLCK, 0, 1));
    close(fd);
    unlink("lock");
}

/* Two that wait for each other: one of them learns of it. */
static void locks_deadlock(void)
{
    touch("lock", 0666);
    struct locks_peer p = locks_start();
    int fd = open("lock", O_RDWR | O_CLOEXEC);
    posix_about("a deadlock");
    EQ(0, locks_mine(fd, 'p', F_WRLCK, 0, 1));
    EQ(0, locks_try(&p, 'p', F_WRLCK, 1, 1));
    locks_send(&p, (struct locks_order){'p', F_WRLCK, 1, 0, 1});
    for (int i = 0; i < 5; i++) {
        posix_tick();
    }
    struct sigaction s = {.sa_handler = locks_alarm};
    struct itimerval soon = {.it_value = {.tv_usec = 500000}}, off = {.it_value = {0, 0}};
    sigaction(SIGALRM, &s, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    struct locks_order o = {'p', F_WRLCK, 1, 1, 1};
    int error = locks_do(&fd, &o).error;
    setitimer(ITIMER_REAL, &off, NULL);
    TRUE(error == EDEADLK || error == EINTR); /* FUSE file systems need not find it */
    EQ(0, locks_mine(fd, 'p', F_UNLCK, 0, 0));
    EQ(0, locks_receive(&p).error);
    locks_end(&p);
    close(fd);
    unlink("lock");
}

/* Many processes count together, each under the lock. */
static int locks_counter(void *ctx)
{
    int kind = *(int *)ctx, fd = open("lock", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 50; i++) {
        struct locks_order on = {kind, F_WRLCK, 1, 0, 0}, off = {kind, F_UNLCK, 0, 0, 0};
        int n = 0;
        if (locks_do(&fd, &on).error || pread(fd, &n, sizeof(n), 0) != sizeof(n)) {
            return 1;
        }
        n++;
        if (pwrite(fd, &n, sizeof(n), 0) != sizeof(n) || locks_do(&fd, &off).error) {
            return 1;
        }
    }
    return 0;
}

static void locks_counting(int kind)
{
    pid_t pid[4];
    int n = 0, fd = open("lock", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    posix_about("counting under '%c' locks", kind);
    EQ(sizeof(n), pwrite(fd, &n, sizeof(n), 0));
    fflush(stdout);
    for (int i = 0; i < 4; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            _exit(locks_counter(&kind));
        }
    }
    for (int i = 0; i < 4; i++) {
        int status = 1;
        waitpid(pid[i], &status, 0);
        EQ(0, status);
    }
    EQ(sizeof(n), pread(fd, &n, sizeof(n), 0));
    EQ(200, n);
    close(fd);
    unlink("lock");
}

static void locks_fcntl(void)
{
    locks_ranges('p');
    locks_split();
    locks_waiting('p');
    locks_deadlock();
    locks_counting('p');
    locks_counting('f');
}

static void locks_ofd(void)
{
    locks_ranges('o');
    locks_waiting('o');
    locks_counting('o');
}

const struct posix_family posix_locks[] = {
    {"flock", locks_flock}, {"fcntl", locks_fcntl}, {"ofd", locks_ofd}, {NULL, NULL}};
