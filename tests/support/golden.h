/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * Golden traces: a test writes what happens, line by line, and the text is compared with a file of
 * tests/golden/. The files are made to be read: they show a protocol by example.
 *
 *     struct golden *g = golden_begin("ddp_write");
 *     golden_note(g, "Node 0 writes; no node fails.");
 *     golden_line(g, "node 0 -> node %u: INV", 1u);
 *     golden_end(g);
 *
 * A line that differs fails the test, with both lines. SNIC_GOLDEN_UPDATE=1 in the environment
 * writes the files instead: review the difference before it is committed.
 */
#ifndef SNIC_TESTS_GOLDEN_H
#define SNIC_TESTS_GOLDEN_H

#include <stddef.h>

struct golden;

/** A trace that is compared with tests/golden/@p name.txt. Never NULL. */
struct golden *golden_begin(const char *name);
/** A line of the trace; without the line's end. */
void golden_line(struct golden *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** A comment: "# " and @p text, broken into lines of at most 100 columns; after an empty line. */
void golden_note(struct golden *g, const char *text);
/** Compares (fails the running test if it differs) or writes the file, and frees the trace. */
void golden_end(struct golden *g);

/**
 * Compare the bytes with the block of lib/@p module/FORMAT.md that begins with a line
 * "```hex TITLE, SIZE bytes": 16 bytes a line behind their offset, without the lines that are all
 * zeros. A difference fails the test. SNIC_GOLDEN_UPDATE=1 fills the block, which has to exist.
 */
void golden_bytes(const char *module, const char *title, const void *bytes, size_t size);

#endif /* SNIC_TESTS_GOLDEN_H */
