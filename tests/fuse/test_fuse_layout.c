/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Our numbers and layouts beside those of this system's kernel headers. */
#include "snicstore/fuse.h"
#include "support.h"

#include <fcntl.h>
#include <linux/fuse.h>

#define SIZE(ours, theirs) assert_int_equal(sizeof(struct ours), sizeof(struct theirs))
#define FIELD2(ours, a, theirs, b)                                                                 \
    do {                                                                                           \
        assert_int_equal(offsetof(struct ours, a), offsetof(struct theirs, b));                    \
        assert_int_equal(sizeof(((struct ours *)0)->a), sizeof(((struct theirs *)0)->b));          \
    } while (0)
#define FIELD(name, f) FIELD2(snic_fuse_##name, f, fuse_##name, f)
#define SAME(name) SIZE(snic_fuse_##name, fuse_##name)

/* A field at another place would be read from its neighbour. */
static void test_fuse_layout_headers_and_parts(void **state)
{
    (void)state;
    SAME(in_header);
    FIELD(in_header, len);
    FIELD(in_header, opcode);
    FIELD(in_header, unique);
    FIELD(in_header, nodeid);
    FIELD(in_header, uid);
    FIELD(in_header, gid);
    FIELD(in_header, pid);
#if FUSE_KERNEL_MINOR_VERSION >= 38
    FIELD(in_header, total_extlen);
    SAME(ext_header);
    FIELD(ext_header, size);
    FIELD(ext_header, type);
#endif
    SAME(out_header);
    FIELD(out_header, len);
    FIELD(out_header, error);
    FIELD(out_header, unique);
    SAME(attr);
    FIELD(attr, ino);
    FIELD(attr, size);
    FIELD(attr, blocks);
    FIELD(attr, atime);
    FIELD(attr, mtime);
    FIELD(attr, ctime);
    FIELD(attr, atimensec);
    FIELD(attr, mtimensec);
    FIELD(attr, ctimensec);
    FIELD(attr, mode);
    FIELD(attr, nlink);
    FIELD(attr, uid);
    FIELD(attr, gid);
    FIELD(attr, rdev);
    FIELD(attr, blksize);
    FIELD(attr, flags);
    SAME(file_lock);
    FIELD(file_lock, start);
    FIELD(file_lock, end);
    FIELD(file_lock, type);
    FIELD(file_lock, pid);
}

static void test_fuse_layout_names_and_attributes(void **state)
{
    (void)state;
    SAME(forget_in);
    SAME(forget_one);
    FIELD(forget_one, nodeid);
    FIELD(forget_one, nlookup);
    SAME(batch_forget_in);
    FIELD(batch_forget_in, count);
    SAME(getattr_in);
    FIELD(getattr_in, getattr_flags);
    FIELD(getattr_in, fh);
    SAME(setattr_in);
    FIELD(setattr_in, valid);
    FIELD(setattr_in, fh);
    FIELD(setattr_in, size);
    FIELD(setattr_in, lock_owner);
    FIELD(setattr_in, atime);
    FIELD(setattr_in, mtime);
    FIELD(setattr_in, ctime);
    FIELD(setattr_in, atimensec);
    FIELD(setattr_in, mtimensec);
    FIELD(setattr_in, ctimensec);
    FIELD(setattr_in, mode);
    FIELD(setattr_in, uid);
    FIELD(setattr_in, gid);
    SAME(mknod_in);
    FIELD(mknod_in, mode);
    FIELD(mknod_in, rdev);
    FIELD(mknod_in, umask);
    SAME(mkdir_in);
    FIELD(mkdir_in, umask);
    SIZE(snic_fuse_rename_in, fuse_rename2_in);
    FIELD2(snic_fuse_rename_in, newdir, fuse_rename2_in, newdir);
    FIELD2(snic_fuse_rename_in, newdir, fuse_rename_in, newdir);
    FIELD2(snic_fuse_rename_in, flags, fuse_rename2_in, flags);
    SAME(link_in);
    SAME(setxattr_in);
    FIELD(setxattr_in, size);
    FIELD(setxattr_in, flags);
    FIELD(setxattr_in, setxattr_flags);
    assert_int_equal(FUSE_COMPAT_SETXATTR_IN_SIZE, 8);
    SAME(getxattr_in);
    FIELD(getxattr_in, size);
    SAME(access_in);
    SAME(lseek_in);
    FIELD(lseek_in, offset);
    FIELD(lseek_in, whence);
}

static void test_fuse_layout_files_and_locks(void **state)
{
    (void)state;
    SAME(open_in);
    FIELD(open_in, flags);
    FIELD(open_in, open_flags);
    SAME(create_in);
    FIELD(create_in, flags);
    FIELD(create_in, mode);
    FIELD(create_in, umask);
    FIELD(create_in, open_flags);
    SAME(release_in);
    FIELD(release_in, fh);
    FIELD(release_in, flags);
    FIELD(release_in, release_flags);
    FIELD(release_in, lock_owner);
    SAME(flush_in);
    FIELD(flush_in, lock_owner);
    SAME(read_in);
    FIELD(read_in, fh);
    FIELD(read_in, offset);
    FIELD(read_in, size);
    FIELD(read_in, read_flags);
    FIELD(read_in, lock_owner);
    FIELD(read_in, flags);
    SAME(write_in);
    FIELD(write_in, fh);
    FIELD(write_in, offset);
    FIELD(write_in, size);
    FIELD(write_in, write_flags);
    FIELD(write_in, lock_owner);
    FIELD(write_in, flags);
    SAME(fsync_in);
    FIELD(fsync_in, fsync_flags);
    SAME(lk_in);
    FIELD(lk_in, fh);
    FIELD(lk_in, owner);
    FIELD(lk_in, lk);
    FIELD(lk_in, lk_flags);
    SAME(interrupt_in);
    SAME(bmap_in);
    FIELD(bmap_in, blocksize);
    SAME(ioctl_in);
    FIELD(ioctl_in, cmd);
    FIELD(ioctl_in, in_size);
    FIELD(ioctl_in, out_size);
    SAME(poll_in);
    FIELD(poll_in, kh);
    FIELD(poll_in, flags);
    FIELD(poll_in, events);
    SAME(fallocate_in);
    FIELD(fallocate_in, offset);
    FIELD(fallocate_in, length);
    FIELD(fallocate_in, mode);
    SAME(copy_file_range_in);
    FIELD(copy_file_range_in, off_in);
    FIELD(copy_file_range_in, nodeid_out);
    FIELD(copy_file_range_in, fh_out);
    FIELD(copy_file_range_in, off_out);
    FIELD(copy_file_range_in, len);
    FIELD(copy_file_range_in, flags);
    SAME(syncfs_in);
    SAME(init_in);
    FIELD(init_in, major);
    FIELD(init_in, minor);
    FIELD(init_in, max_readahead);
    FIELD(init_in, flags);
    FIELD(init_in, flags2);
}

static void test_fuse_layout_results(void **state)
{
    (void)state;
    SAME(entry_out);
    FIELD(entry_out, nodeid);
    FIELD(entry_out, generation);
    FIELD(entry_out, entry_valid);
    FIELD(entry_out, attr_valid);
    FIELD(entry_out, entry_valid_nsec);
    FIELD(entry_out, attr_valid_nsec);
    FIELD(entry_out, attr);
    SAME(attr_out);
    FIELD(attr_out, attr_valid);
    FIELD(attr_out, attr_valid_nsec);
    FIELD(attr_out, attr);
    SAME(open_out);
    FIELD(open_out, fh);
    FIELD(open_out, open_flags);
    SAME(write_out);
    FIELD(write_out, size);
    SAME(statfs_out);
    FIELD2(snic_fuse_statfs_out, bfree, fuse_statfs_out, st.bfree);
    FIELD2(snic_fuse_statfs_out, bavail, fuse_statfs_out, st.bavail);
    FIELD2(snic_fuse_statfs_out, files, fuse_statfs_out, st.files);
    FIELD2(snic_fuse_statfs_out, ffree, fuse_statfs_out, st.ffree);
    FIELD2(snic_fuse_statfs_out, bsize, fuse_statfs_out, st.bsize);
    FIELD2(snic_fuse_statfs_out, namelen, fuse_statfs_out, st.namelen);
    FIELD2(snic_fuse_statfs_out, frsize, fuse_statfs_out, st.frsize);
    SAME(getxattr_out);
    SAME(lk_out);
    SAME(init_out);
    FIELD(init_out, max_readahead);
    FIELD(init_out, flags);
    FIELD(init_out, max_background);
    FIELD(init_out, congestion_threshold);
    FIELD(init_out, max_write);
    FIELD(init_out, time_gran);
    FIELD(init_out, max_pages);
    FIELD(init_out, map_alignment);
    FIELD(init_out, flags2);
    SAME(bmap_out);
    SAME(ioctl_out);
    SAME(poll_out);
    SAME(lseek_out);
    assert_int_equal(sizeof(struct snic_fuse_dirent), FUSE_NAME_OFFSET);
    FIELD(dirent, ino);
    FIELD(dirent, off);
    FIELD(dirent, namelen);
    FIELD(dirent, type);
    SAME(notify_inval_inode_out);
    FIELD(notify_inval_inode_out, off);
    FIELD(notify_inval_inode_out, len);
    SAME(notify_inval_entry_out);
    FIELD(notify_inval_entry_out, namelen);
    FIELD2(snic_fuse_notify_inval_entry_out, flags, fuse_notify_inval_entry_out, flags);
    SAME(notify_delete_out);
    FIELD(notify_delete_out, child);
    FIELD(notify_delete_out, namelen);
}

/* What this system's headers may be too old for. */
static void test_fuse_layout_newer_than_headers(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct snic_fuse_statx_in), 24);
    assert_int_equal(offsetof(struct snic_fuse_statx_in, sx_mask), 20);
    assert_int_equal(offsetof(struct snic_fuse_statx_out, stat), 32);
    assert_int_equal(offsetof(struct snic_fuse_statx, nlink), 16);
    assert_int_equal(offsetof(struct snic_fuse_statx, mode), 28);
    assert_int_equal(offsetof(struct snic_fuse_statx, ino), 32);
    assert_int_equal(offsetof(struct snic_fuse_statx, attributes_mask), 56);
    assert_int_equal(offsetof(struct snic_fuse_statx, btime), 80);
    assert_int_equal(offsetof(struct snic_fuse_statx, ctime), 96);
    assert_int_equal(offsetof(struct snic_fuse_statx, rdev_major), 128);
    assert_int_equal(sizeof(struct snic_fuse_copy_file_range_out), 8);
    assert_int_equal(offsetof(struct snic_fuse_init_out, max_stack_depth), 36);
    assert_int_equal(offsetof(struct snic_fuse_init_out, request_timeout), 40);
#if FUSE_KERNEL_MINOR_VERSION >= 39
    SAME(statx_in);
    SAME(statx_out);
    SAME(statx);
    FIELD(statx, btime);
    assert_int_equal(SNIC_FUSE_STATX, FUSE_STATX);
#endif
#if FUSE_KERNEL_MINOR_VERSION >= 43
    FIELD(open_out, backing_id);
    FIELD(init_out, max_stack_depth);
    FIELD(init_out, request_timeout);
    assert_true(SNIC_FUSE_REQUEST_TIMEOUT == FUSE_REQUEST_TIMEOUT);
#endif
#if FUSE_KERNEL_MINOR_VERSION >= 45
    assert_int_equal(SNIC_FUSE_COPY_FILE_RANGE_64, FUSE_COPY_FILE_RANGE_64);
#endif
}

#define NUMBER(name)                                                                               \
    {                                                                                              \
        SNIC_FUSE_##name, FUSE_##name                                                              \
    }

static const uint64_t numbers[][2] = {
    NUMBER(LOOKUP),
    NUMBER(FORGET),
    NUMBER(GETATTR),
    NUMBER(SETATTR),
    NUMBER(READLINK),
    NUMBER(SYMLINK),
    NUMBER(MKNOD),
    NUMBER(MKDIR),
    NUMBER(UNLINK),
    NUMBER(RMDIR),
    NUMBER(RENAME),
    NUMBER(LINK),
    NUMBER(OPEN),
    NUMBER(READ),
    NUMBER(WRITE),
    NUMBER(STATFS),
    NUMBER(RELEASE),
    NUMBER(FSYNC),
    NUMBER(SETXATTR),
    NUMBER(GETXATTR),
    NUMBER(LISTXATTR),
    NUMBER(REMOVEXATTR),
    NUMBER(FLUSH),
    NUMBER(INIT),
    NUMBER(OPENDIR),
    NUMBER(READDIR),
    NUMBER(RELEASEDIR),
    NUMBER(FSYNCDIR),
    NUMBER(GETLK),
    NUMBER(SETLK),
    NUMBER(SETLKW),
    NUMBER(ACCESS),
    NUMBER(CREATE),
    NUMBER(INTERRUPT),
    NUMBER(BMAP),
    NUMBER(DESTROY),
    NUMBER(IOCTL),
    NUMBER(POLL),
    NUMBER(NOTIFY_REPLY),
    NUMBER(BATCH_FORGET),
    NUMBER(FALLOCATE),
    NUMBER(READDIRPLUS),
    NUMBER(RENAME2),
    NUMBER(LSEEK),
    NUMBER(COPY_FILE_RANGE),
    NUMBER(SETUPMAPPING),
    NUMBER(REMOVEMAPPING),
    NUMBER(SYNCFS),
    NUMBER(TMPFILE),
    NUMBER(ASYNC_READ),
    NUMBER(POSIX_LOCKS),
    NUMBER(ATOMIC_O_TRUNC),
    NUMBER(EXPORT_SUPPORT),
    NUMBER(BIG_WRITES),
    NUMBER(DONT_MASK),
    NUMBER(SPLICE_WRITE),
    NUMBER(SPLICE_MOVE),
    NUMBER(SPLICE_READ),
    NUMBER(FLOCK_LOCKS),
    NUMBER(HAS_IOCTL_DIR),
    NUMBER(AUTO_INVAL_DATA),
    NUMBER(DO_READDIRPLUS),
    NUMBER(READDIRPLUS_AUTO),
    NUMBER(ASYNC_DIO),
    NUMBER(WRITEBACK_CACHE),
    NUMBER(NO_OPEN_SUPPORT),
    NUMBER(PARALLEL_DIROPS),
    NUMBER(HANDLE_KILLPRIV),
    NUMBER(POSIX_ACL),
    NUMBER(ABORT_ERROR),
    NUMBER(MAX_PAGES),
    NUMBER(CACHE_SYMLINKS),
    NUMBER(NO_OPENDIR_SUPPORT),
    NUMBER(EXPLICIT_INVAL_DATA),
    NUMBER(MAP_ALIGNMENT),
    NUMBER(SUBMOUNTS),
    NUMBER(HANDLE_KILLPRIV_V2),
    NUMBER(SETXATTR_EXT),
    NUMBER(INIT_EXT),
    NUMBER(SECURITY_CTX),
    NUMBER(HAS_INODE_DAX),
    NUMBER(HAS_EXPIRE_ONLY),
    NUMBER(NOTIFY_INVAL_INODE),
    NUMBER(NOTIFY_INVAL_ENTRY),
    NUMBER(NOTIFY_DELETE),
    NUMBER(OPEN_KILL_SUIDGID),
    NUMBER(GETATTR_FH),
    NUMBER(RELEASE_FLUSH),
    NUMBER(RELEASE_FLOCK_UNLOCK),
    NUMBER(LK_FLOCK),
    NUMBER(READ_LOCKOWNER),
    NUMBER(WRITE_CACHE),
    NUMBER(WRITE_LOCKOWNER),
    NUMBER(WRITE_KILL_SUIDGID),
    NUMBER(SETXATTR_ACL_KILL_SGID),
    NUMBER(EXPIRE_ONLY),
    {SNIC_FUSE_ROOT, FUSE_ROOT_ID},
    {SNIC_FUSE_MAJOR, FUSE_KERNEL_VERSION},
    {SNIC_FUSE_FSYNC_DATA, FUSE_FSYNC_FDATASYNC},
    {SNIC_FUSE_SET_MODE, FATTR_MODE},
    {SNIC_FUSE_SET_UID, FATTR_UID},
    {SNIC_FUSE_SET_GID, FATTR_GID},
    {SNIC_FUSE_SET_SIZE, FATTR_SIZE},
    {SNIC_FUSE_SET_ATIME, FATTR_ATIME},
    {SNIC_FUSE_SET_MTIME, FATTR_MTIME},
    {SNIC_FUSE_SET_FH, FATTR_FH},
    {SNIC_FUSE_SET_ATIME_NOW, FATTR_ATIME_NOW},
    {SNIC_FUSE_SET_MTIME_NOW, FATTR_MTIME_NOW},
    {SNIC_FUSE_SET_LOCKOWNER, FATTR_LOCKOWNER},
    {SNIC_FUSE_SET_CTIME, FATTR_CTIME},
    {SNIC_FUSE_SET_KILL_SUIDGID, FATTR_KILL_SUIDGID},
    {SNIC_FUSE_FOPEN_DIRECT_IO, FOPEN_DIRECT_IO},
    {SNIC_FUSE_FOPEN_KEEP_CACHE, FOPEN_KEEP_CACHE},
    {SNIC_FUSE_FOPEN_NONSEEKABLE, FOPEN_NONSEEKABLE},
    {SNIC_FUSE_FOPEN_CACHE_DIR, FOPEN_CACHE_DIR},
    {SNIC_FUSE_FOPEN_STREAM, FOPEN_STREAM},
    {SNIC_FUSE_FOPEN_NOFLUSH, FOPEN_NOFLUSH},
    {SNIC_FUSE_FOPEN_PARALLEL_DIRECT_WRITES, FOPEN_PARALLEL_DIRECT_WRITES},
    {SNIC_FUSE_EXT_SECCTX_MAX, FUSE_MAX_NR_SECCTX},
    {SNIC_FUSE_RDLCK, F_RDLCK},
    {SNIC_FUSE_WRLCK, F_WRLCK},
    {SNIC_FUSE_UNLCK, F_UNLCK},
};

static void test_fuse_layout_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < SNIC_COUNTOF(numbers); i++)
        assert_true(numbers[i][0] == numbers[i][1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fuse_layout_headers_and_parts),
        cmocka_unit_test(test_fuse_layout_names_and_attributes),
        cmocka_unit_test(test_fuse_layout_files_and_locks),
        cmocka_unit_test(test_fuse_layout_results),
        cmocka_unit_test(test_fuse_layout_newer_than_headers),
        cmocka_unit_test(test_fuse_layout_numbers),
    };
    return SUPPORT_MAIN(argc, argv, tests);
}
