/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The checkpoint in the background: chunk by chunk out of the raw tables, flush, header.
 *
 * K1  The raw tables hold only what is durable in the journal (I1), so a chunk may be written
 *     at any moment: what it holds beyond the start of its generation is replayed again.
 * K2  The header is written after a flush that followed the last chunk. Until it is durable
 *     the generation before, with its half of the journal, stays what mount uses; so the half
 *     is not reused before (commit.c, C3).
 */
#include "files/files_priv.h"

static void checkpoint_io(struct snic_files *f, uint8_t op, uint64_t place, uint32_t size)
{
    struct snic_io_req *io = &f->ckpt_io;
    io->region = SNIC_NO_REGION;
    io->op = op;
    io->flags = 0;
    io->offset = place;
    io->length = size;
    io->buf.base = size != 0 ? f->ckpt_buf : NULL;
    io->buf.size = size;
    files_io_push(f, io);
}

static void checkpoint_chunk(struct snic_files *f)
{
    struct files_raw raw = files_raw_of(f);
    files_chunk_pack(&f->info, &raw, f->ckpt_index, f->generation, f->ckpt_buf);
    checkpoint_io(f, SNIC_IO_WRITE,
                  files_slot_offset(&f->info, f->generation) +
                      (f->ckpt_index + 1) * SNIC_FILES__CHUNK,
                  SNIC_FILES__CHUNK);
}

static void checkpoint_header(struct snic_files *f)
{
    uint64_t place = files_slot_offset(&f->info, f->generation);
    unsigned char *b = f->ckpt_buf;
    memset(b, 0, SNIC_FILES__CHUNK);
    snic_put_le64(b + SNIC_FILES__SH_GENERATION, f->generation);
    snic_put_le64(b + SNIC_FILES__SH_CHUNKS, f->ckpt_chunks);
    snic_put_le64(b + SNIC_FILES__SH_NEXT_ID, f->next_id);
    snic_put_le64(b + SNIC_FILES__SH_SEQ, f->ckpt_seq);
    files_seal(b, f->info.block_bytes, SNIC_FILES__SLOT_MAGIC, f->info.image_id, place);
    checkpoint_io(f, SNIC_IO_WRITE, place, f->info.block_bytes);
}

/* Write checkpoint f->generation; entries of that generation may be committed meanwhile. */
void files_checkpoint_start(struct snic_files *f)
{
    SNIC_ASSERT(f->ckpt_state == FILES_CKPT_IDLE);
    f->ckpt_state = FILES_CKPT_CHUNKS;
    f->ckpt_index = 0;
    checkpoint_chunk(f);
}

/* The device has ended the step: 0, or the error. */
int files_checkpoint_ended(struct snic_files *f)
{
    const struct snic_io_req *io = &f->ckpt_io;
    files_io_ended(f);
    if (io->result < 0 || (uint64_t)io->result != io->length || f->broken != 0) {
        f->ckpt_state = FILES_CKPT_IDLE;
        return io->result < 0 ? (int)io->result : SNIC_EIO;
    }
    switch ((enum files_ckpt_state)f->ckpt_state) {
    case FILES_CKPT_CHUNKS:
        f->ckpt_index++;
        if (f->ckpt_index < f->ckpt_chunks) {
            checkpoint_chunk(f);
            break;
        }
        f->ckpt_state = FILES_CKPT_FLUSH; /* K2 */
        checkpoint_io(f, SNIC_IO_FLUSH, 0, 0);
        break;
    case FILES_CKPT_FLUSH:
        f->ckpt_state = FILES_CKPT_HEADER;
        checkpoint_header(f);
        break;
    case FILES_CKPT_HEADER:
        f->ckpt_state = FILES_CKPT_FLUSH_HEADER;
        checkpoint_io(f, SNIC_IO_FLUSH, 0, 0);
        break;
    case FILES_CKPT_FLUSH_HEADER:
    case FILES_CKPT_IDLE:
    default:
        f->ckpt_state = FILES_CKPT_IDLE;
        f->stats.checkpoints++;
        break;
    }
    return 0;
}
