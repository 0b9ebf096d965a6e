/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What fio's job files have that means nothing here, and its variables. */
#include "job.h"

#include <string.h>

/* In ASCII order. fio's files come with options of its engines, its logs and its verification: a
 * tenant is described by the others, and each that is left out is reported. */
/* clang-format off */
static const char *const fio_keys[] = {
    "allow_file_create", "allow_mounted_write", "allrandrepeat", "atomic", "ba",
    "block_error_percentiles", "blockalign", "blocksize_unaligned", "bs_unaligned", "bsrange",
    "buffer_compress_chunk", "buffer_compress_percentage", "buffer_pattern", "buffered",
    "busy_poll", "bwavgtime", "cgroup", "cgroup_nodelete", "cgroup_weight", "chunk_size",
    "clat_percentiles", "clientname", "clocksource", "cluster", "cmd_type", "cmdprio",
    "cmdprio_bssplit", "cmdprio_class", "cmdprio_hint", "cmdprio_percentage", "continue_on_error",
    "cpuchunks", "cpuload", "cpumask", "cpumode", "cpus_allowed", "cpus_allowed_policy",
    "create_fsync", "create_on_open", "create_only", "create_serialize", "dedupe_global",
    "dedupe_mode", "dedupe_percentage", "dedupe_working_set_percentage", "description",
    "dfuse_path", "direct", "directory", "disable_bw_measurement", "disable_clat", "disable_lat",
    "disable_slat", "disk_util", "do_verify", "donorname", "end_fsync", "error_dump",
    "exec_postrun", "exec_prerun", "exit_on_io_done", "exit_what", "exitall", "exitall_on_error",
    "experimental_verify", "fadvise", "fadvise_hint", "fallocate", "fdatasync", "file_append",
    "file_service_type", "file_size", "filename", "filename_format", "filesize", "filetype",
    "fill_device", "fill_fs", "fixedbufs", "flow", "flow_id", "flow_sleep", "force_async",
    "fsync", "fsync_blocksize", "fsync_on_close", "gid", "group_reporting", "gtod_cpu",
    "gtod_reduce", "hash", "hdfsdirectory", "hipri", "hostname", "http_host", "http_pswd",
    "http_user", "hugepage-size", "ignore_error", "ignore_zone_limits", "inplace", "interface",
    "invalidate", "io_engine", "io_limit", "io_size", "io_submit_mode", "iodepth_batch",
    "iodepth_batch_complete", "iodepth_batch_complete_max", "iodepth_batch_complete_min",
    "iodepth_batch_submit", "iodepth_low", "ioengine", "iomem", "iopsavgtime", "ioscheduler",
    "job_max_open_zones", "kb_base", "lat_percentiles", "latency_percentile", "latency_run",
    "latency_target", "latency_window", "listen", "lockfile", "lockmem", "log_alternate_epoch",
    "log_alternate_epoch_clock_id", "log_avg_msec", "log_compression", "log_compression_cpus",
    "log_entries", "log_hist_coarseness", "log_hist_msec", "log_max_value", "log_offset",
    "log_prio", "log_store_compressed", "log_unix_epoch", "loops", "max_latency",
    "max_open_zones", "md5", "md_per_io_size", "mem", "mem_align", "merge_blktrace_file",
    "merge_blktrace_iters", "merge_blktrace_scalars", "minimal", "mmapshared", "mss", "name",
    "net_type", "new_group", "nice", "nodelay", "nonvectored", "norandom", "norandommap",
    "nowait", "nrfiles", "numa_cpu_nodes", "numa_mem_policy", "number_ios", "offset_align",
    "offset_increment", "opendir", "openfiles", "overwrite", "per_job_logs", "percentage_random",
    "percentage_sequential", "percentile_list", "pi_act", "pingpong", "pool", "port", "pre_read",
    "prio", "prio_class", "prioclass", "profile", "protocol", "ramp_time", "ramptime",
    "rand_seed", "random_distribution", "random_generator", "randrepeat", "randseed",
    "rate_cycle", "rate_ignore_thinktime", "rate_iops_min", "rate_min", "rate_process", "rbdname",
    "read_beyond_wp", "read_iolog", "read_iolog_chunked", "readfua", "refill_buffers",
    "registerfiles", "replay_align", "replay_no_stall", "replay_redirect", "replay_scale",
    "replay_skip", "replay_time_scale", "rw_sequencer", "scramble_buffers", "serialize_overlap",
    "significant_figures", "size_percent", "slat_percentiles", "softrandommap", "sqthread_poll",
    "sqthread_poll_cpu", "stall_pattern", "stat_type", "stats", "steadystate",
    "steadystate_duration", "steadystate_ramp_time", "stonewall", "sync", "sync_file_range",
    "sync_file_range_nr", "thinktime", "thinktime_blocks", "thinktime_blocks_type",
    "thinktime_iotime", "thinktime_spin", "thread", "time_based", "trim_backlog",
    "trim_backlog_batch", "trim_percentage", "trim_verify_zero", "trimwrite", "ttl", "uid",
    "uncached", "unified_rw_reporting", "unique_filename", "unit_base", "unlink",
    "unlink_each_loop", "use_os_rand", "userspace_reap", "verify", "verify_async",
    "verify_backlog", "verify_backlog_batch", "verify_dump", "verify_fatal", "verify_interval",
    "verify_offset", "verify_only", "verify_pattern", "verify_state_load", "verify_state_save",
    "verifysort", "verifysort_nr", "wait_for", "wait_for_previous", "window_size",
    "write_barrier", "write_bw_log", "write_hint", "write_hist_log", "write_iolog",
    "write_iops_log", "write_lat_log", "writefua", "zero_buffers", "zone_reset_frequency",
    "zone_reset_threshold", "zonecapacity", "zoned", "zonemode", "zonerange", "zonesize",
    "zoneskip",
};
/* clang-format on */

int job_fio_key(const char *key)
{
    size_t low = 0, high = sizeof(fio_keys) / sizeof(fio_keys[0]);

    while (low < high) {
        size_t mid = (low + high) / 2;
        int c = strcmp(fio_keys[mid], key);

        if (c == 0)
            return 1;
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return 0;
}

/* Every ${NAME} of @p in becomes its value, "" where there is none, as in fio. */
int job_fio_expand(const struct job_source *s, const char *in, char *out, size_t size)
{
    size_t n = 0;

    while (*in != 0) {
        const char *end = in[0] == '$' && in[1] == '{' ? strchr(in + 2, '}') : NULL;
        const char *value = in;
        char name[64];
        size_t bytes = 1;

        if (end != NULL) {
            if ((size_t)(end - in - 2) >= sizeof(name))
                return -1;
            memcpy(name, in + 2, (size_t)(end - in - 2));
            name[end - in - 2] = 0;
            value = s->variable != NULL ? s->variable(s->ctx, name) : NULL;
            bytes = value != NULL ? strlen(value) : 0;
        }
        if (bytes >= size - n)
            return -1;
        if (bytes > 0)
            memcpy(out + n, value, bytes);
        n += bytes;
        in = end != NULL ? end + 1 : in + 1;
    }
    out[n] = 0;
    return 0;
}
