/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/** Numbers, sizes and times of a job file, read where they stand. */
#ifndef TENANTS_JOB_TEXT_H
#define TENANTS_JOB_TEXT_H

#include <stdint.h>

#define JOB_TEXT_TIME_MAX (UINT64_C(86400) * 1000000000)

/** Each @return what follows it, or NULL: it is none, or too large. */
const char *job_text_digits(const char *text, uint64_t *out);
const char *job_text_bytes(const char *text, uint64_t *out);
const char *job_text_time(const char *text, uint64_t *out);
char job_text_lower(char c);
/** Cut white space at both ends of [text, end). */
char *job_text_trim(char *text, char *end);

#endif
