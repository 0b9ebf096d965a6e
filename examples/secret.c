/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "secret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int ex_secret_key(const char *whose, const char *text, struct snic_nvmeauth_key *out, char *why)
{
    int r = snic_nvmeauth_key_parse(out, text);

    if (r == 0)
        return 0;
    (void)snprintf(why, EX_SECRET_WHY, "the %s secret %s", whose,
                   r == SNIC_ECORRUPT  ? "has a wrong checksum: a character is wrong"
                   : r == SNIC_ENOTSUP ? "has an unknown hash: 00 to 03 are known"
                                       : "is not DHHC-1:HH:BASE64:, as nvme gen-dhchap-key makes");
    return -1;
}

int ex_secret_keys(char *const *words, int count, struct snic_nvmeauth_keys *out, char *why)
{
    if (count < 1 || count > 2) {
        (void)snprintf(why, EX_SECRET_WHY, "not HOSTNQN SECRET [CTRLSECRET]");
        return -1;
    }
    if (ex_secret_key("host's", words[0], &out->host, why) != 0 ||
        (count == 2 && ex_secret_key("controller's", words[1], &out->ctrl, why) != 0))
        return -1;
    if (count == 2 && strcmp(words[0], words[1]) == 0) {
        (void)snprintf(why, EX_SECRET_WHY, "the two secrets must differ");
        return -1;
    }
    return 0;
}

static int secret_lines(FILE *in, const char *path, char *text, ex_secret_line_fn line, void *ctx,
                        char *why)
{
    char wrong[EX_SECRET_WHY];

    for (unsigned number = 1; fgets(text, EX_SECRET_LINE + 2, in) != NULL; number++) {
        size_t n = strlen(text);

        (void)snprintf(wrong, sizeof(wrong), "not a line of text of at most %d bytes",
                       EX_SECRET_LINE);
        int whole = n > 0 && n <= EX_SECRET_LINE + 1 && (text[n - 1] == '\n' || feof(in));
        if (whole && text[n - 1] == '\n')
            text[n - 1] = 0;
        if (!whole || line(ctx, text, wrong) != 0) {
            (void)snprintf(why, EX_SECRET_WHY, "%.*s:%u: %.*s", EX_SECRET_WHY / 2, path, number,
                           EX_SECRET_WHY / 2 - 32, wrong);
            return -1;
        }
    }
    if (!ferror(in))
        return 0;
    (void)snprintf(why, EX_SECRET_WHY, "cannot read %s (--auth-keys): %s", path, strerror(errno));
    return -1;
}

int ex_secret_read(const char *path, ex_secret_line_fn line, void *ctx, char *why)
{
    static char text[EX_SECRET_LINE + 2], buffer[4096];
    struct stat s;
    FILE *in = fopen(path, "re");
    int r = -1;

    if (in == NULL || fstat(fileno(in), &s) != 0) {
        (void)snprintf(why, EX_SECRET_WHY, "cannot read %s (--auth-keys): %s", path,
                       strerror(errno));
    } else if (!S_ISREG(s.st_mode) || (s.st_mode & 077) != 0 ||
               (s.st_uid != geteuid() && s.st_uid != 0)) {
        (void)snprintf(why, EX_SECRET_WHY,
                       "%s (--auth-keys) has secrets, and others may read it, or it is another "
                       "user's: chmod 600",
                       path);
    } else {
        (void)setvbuf(in, buffer, _IOFBF, sizeof(buffer)); /* one that can be wiped */
        r = secret_lines(in, path, text, line, ctx, why);
    }
    if (in != NULL)
        (void)fclose(in);
    snic_nvmeauth_wipe(text, sizeof(text));
    snic_nvmeauth_wipe(buffer, sizeof(buffer));
    return r;
}
