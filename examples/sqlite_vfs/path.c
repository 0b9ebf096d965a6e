/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "path.h"

#include <string.h>
#include <sys/stat.h>

/* One name, up to a slash or the end. @return its length; SNIC_E* */
static int sv_component(const char *from, char *out)
{
    size_t n = strcspn(from, "/");
    if (n > SNIC_FILES_NAME_MAX)
        return SNIC_ENAMETOOLONG;
    memcpy(out, from, n);
    out[n] = 0;
    return n == 0 ? SNIC_EINVAL : (int)n;
}

static int sv_behind(const char *rest, struct sv_path *out)
{
    int n = sv_component(rest, out->name);
    out->folder[0] = 0;
    if (n < 0 || rest[n] == 0)
        return n < 0 ? n : 0;
    memcpy(out->folder, out->name, sizeof(out->folder));
    rest += n + 1;
    n = sv_component(rest, out->name);
    return n < 0 ? n : rest[n] == 0 ? 0 : SNIC_EINVAL;
}

int sv_path_split(const char *path, int (*is_open)(const char *volume), struct sv_path *out)
{
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t n = (size_t)(slash - path);
        struct stat st;
        if (n >= sizeof(out->volume))
            return SNIC_ENAMETOOLONG;
        memcpy(out->volume, path, n);
        out->volume[n] = 0;
        if (is_open(out->volume))
            return sv_behind(slash + 1, out);
        if (stat(out->volume, &st) != 0)
            return SNIC_ENOENT;
        if (!S_ISDIR(st.st_mode))
            return sv_behind(slash + 1, out);
    }
    return SNIC_ENOENT;
}
