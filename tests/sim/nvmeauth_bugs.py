# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bugs of the authentication engine, for mutate.py."""
PROGRAMS = {"": ["tests/nvmeauth/test_nvmeauth.c", "tests/nvmeauth/test_nvmeauth_util.c"]}
C = "lib/nvmeauth/ctrl.c"
H = "lib/nvmeauth/host.c"
U = "lib/nvmeauth/compute.c"
M = "lib/nvmeauth/message.c"
K = "lib/nvmeauth/key.c"

# name, file, text (any white space for white space), what instead, (program, filter)
BUGS = [
    # the controller
    ("any response is right", C,
     "if (r == 0 && nvmeauth_equal(want, reply.value, snic_nvmeauth_digest_size(a->hash)))",
     "if (r == 0)", ("",)),
    ("a response is compared in part", C,
     "nvmeauth_equal(want, reply.value, snic_nvmeauth_digest_size(a->hash))",
     "nvmeauth_equal(want, reply.value, 16)", ("",)),
    ("a reflected challenge is accepted", C,
     "if (r->both && nvmeauth_equal(r->challenge, a->challenge, size))", "if (0)",
     ("", "*reflected*")),
    ("no key of the controller is needed", C,
     "if (keys->host.size == 0 || (reply.both && keys->ctrl.size == 0))",
     "if (keys->host.size == 0)", ("",)),
    ("done before Success2", C, "a->state = SNIC_NVMEAUTH_SUCCESS1; }",
     "nvmeauth_ctrl_done(a); }", ("",)),
    ("authenticated by the Reply", C, "a->both = reply.both; a->state = SNIC_NVMEAUTH_REPLIED;",
     "a->both = reply.both; a->state = SNIC_NVMEAUTH_DONE;", ("",)),
    ("Success2 in any state", C,
     "if (m->id != SNIC_NVMEAUTH__SUCCESS2 || a->state != SNIC_NVMEAUTH_SUCCESS1)",
     "if (m->id != SNIC_NVMEAUTH__SUCCESS2)", ("",)),
    ("Negotiate in the middle", C,
     "(a->state == SNIC_NVMEAUTH_IDLE || a->state == SNIC_NVMEAUTH_DONE))",
     "a->state != SNIC_NVMEAUTH_OVER)", ("",)),
    ("any transaction id", C, "if (m->tid != a->tid) return SNIC_NVMEAUTH_PAYLOAD;", "", ("",)),
    ("a Receive out of turn is ignored", C,
     "else if (a->state != SNIC_NVMEAUTH_FAILING && a->state != SNIC_NVMEAUTH_OVER)",
     "else if (0)", ("", "*orders*")),
    ("a failed queue tries again", C,
     "if (a->state == SNIC_NVMEAUTH_FAILING || a->state == SNIC_NVMEAUTH_OVER) return a->state;",
     "if (a->state == SNIC_NVMEAUTH_OVER) a->state = SNIC_NVMEAUTH_IDLE;", ("", "*orders*")),
    ("Failure2 is ignored", C, "nvmeauth_ctrl_failure2(a, m); return 0;", "return 0;", ("",)),
    ("Failure2 with an unknown code is success", C,
     "a->failure = m->data[7] != 0 ? m->data[7] : SNIC_NVMEAUTH_FAILED; a->remote = 1; "
     "a->state = SNIC_NVMEAUTH_OVER;",
     "a->failure = 0; a->remote = 1; a->state = SNIC_NVMEAUTH_DONE;", ("",)),
    ("the same challenge twice", C,
     "memcpy(a->challenge, random->challenge, snic_nvmeauth_digest_size(hash));", "", ("",)),
    ("a short Reply is read", C, "if (m->size < SNIC_NVMEAUTH__HEAD + 2 * size + dh ||",
     "if (m->size < SNIC_NVMEAUTH__HEAD + 2 * size ||", ("", "*cut*")),
    ("HL is not compared", C, "m->data[6] != size ||", "", ("",)),
    ("concatenation is ignored", C, "if (m->data[6] != 0) return SNIC_NVMEAUTH_CONCAT;", "",
     ("",)),
    ("a sequence number of 0 both ways", C,
     "if (r->both && r->sequence == 0) return SNIC_NVMEAUTH_PAYLOAD;",
     "r->both &= r->sequence > 0;", ("",)),
    ("the exponent is kept", C, "nvmeauth_forget(a); a->state = SNIC_NVMEAUTH_DONE;",
     "a->state = SNIC_NVMEAUTH_DONE;", ("",)),
    ("secrets are kept after a failure", C, "nvmeauth_forget(a); a->failure = failure;",
     "a->failure = failure;", ("",)),
    ("a small buffer loses the message", C, "if (room < n) return SNIC_ENOSPC; "
     "nvmeauth_message_begin(out, n, SNIC_NVMEAUTH__CHAP, SNIC_NVMEAUTH__CHALLENGE, a->tid);",
     "if (room < n) { a->state = SNIC_NVMEAUTH_CHALLENGED; return SNIC_ENOSPC; } "
     "nvmeauth_message_begin(out, n, SNIC_NVMEAUTH__CHAP, SNIC_NVMEAUTH__CHALLENGE, a->tid);",
     ("", "*room*")),
    # the host
    ("the controller's response is not compared", H,
     "!nvmeauth_equal(m->data + SNIC_NVMEAUTH__HEAD, a->response, size)))", "0))", ("",)),
    ("a controller without a response is fine", H, "(m->data[8] != 1 ||", "(m->data[8] == 1 &&",
     ("", "*proves_nothing*")),
    ("a hash that was not offered", H, "if (hash >= 32 || (a->hashes >> hash & 1) == 0)",
     "if (snic_nvmeauth_digest_size(hash) == 0)", ("",)),
    ("a group that was not offered", H, "if (group >= 32 || (a->groups >> group & 1) == 0)",
     "if (group > 5)", ("",)),
    ("the host never refuses its own challenge", H,
     "(a->both && nvmeauth_equal(challenge, random->challenge, size))", "0", ("", "*reflected*")),
    ("a Success1 at once", H,
     "m->id == SNIC_NVMEAUTH__SUCCESS1 && a->state == SNIC_NVMEAUTH_REPLIED)",
     "m->id == SNIC_NVMEAUTH__SUCCESS1)", ("",)),
    ("no answer to what is wrong", H, "if (a->remote) return 0;", "return 0;", ("",)),
    ("a challenge without a sequence number", H,
     "|| snic_get_le32(m->data + 12) == 0)", ")", ("",)),
    # what is computed
    ("the augmented challenge is left out", U, "if (a->group == SNIC_NVMEAUTH_DH_NULL) "
     "memcpy(input, p->challenge, size); else r",
     "if (1) memcpy(input, p->challenge, size); else r", ("",)),
    ("the sequence number is left out", U, "snic_put_le32(numbers, p->sequence);",
     "snic_put_le32(numbers, 0);", ("",)),
    ("comparison ends early", U, "for (size_t i = 0; i < size; i++) /* all",
     "for (size_t i = 0; i < size / 2; i++) /* all", ("",)),
    ("sequence number 0 is used", U, "if (a->own_sequence == 0) /* reserved */ "
     "a->own_sequence = 1;", "", ("", "*sequence*")),
    ("one sequence number for all", U, "? random->sequence : a->own_sequence + 1;",
     "? random->sequence : a->own_sequence;", ("",)),
    ("nothing is forgotten", U, "snic_nvmeauth_wipe(a->dh, sizeof(a->dh));", "", ("",)),
    ("the names are left out", U, "nvmeauth_append(input, &n, prover, strlen(prover) + 1); "
     "nvmeauth_append(input, &n, other, strlen(other));", "(void)other;", ("",)),
    # choices and secrets
    ("the null group first", M, "return some != UINT32_MAX ? some : nvmeauth_lowest(set);",
     "(void)some; return nvmeauth_lowest(set);", ("",)),
    ("permissions are ignored", M, "nvmeauth_set(ids, count) & permitted & SNIC_NVMEAUTH_GROUPS;",
     "nvmeauth_set(ids, count) & SNIC_NVMEAUTH_GROUPS;", ("",)),
    ("no checksum", K, "if (snic_get_le32(raw + n - 4) != nvmeauth_crc32(raw, (size_t)n - 4))",
     "if (0)", ("",)),
    ("bits behind the last byte", K, "if ((word & (UINT32_C(0xffffff) >> 8 * bytes)) != 0)",
     "if (0)", ("",)),
    ("any length", K, "if (n != 36 && n != 52 && n != 68)", "if (n < 4)", ("",)),
]
