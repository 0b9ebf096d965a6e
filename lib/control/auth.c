/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Authentication of a connection: both ends prove that they have the secret of an account, and
 * every message after that has a MAC.
 *
 *   connecting end   AUTH 1: key_id, account, a random number
 *   accepting end    AUTH 2: a random number, MAC "accept"
 *   connecting end   AUTH 3: MAC "connect"
 *
 * MACs are HMAC-SHA-256 under the account's secret of a label of 24 bytes, key_id, account and both
 * numbers. Behind each message that follows are 16 bytes: MAC(MAC(message), label "seal", MAC
 * "session", direction, number of messages before it in that direction), cut.
 *
 * I1  A number is a MAC of this end's seed and of a counter: it cannot be guessed, and is not
 *     repeated.
 * I2  Nothing of a message is delivered before its MAC matched, and messages are delivered in the
 *     order in which they were sent, none twice, or the connection ends.
 * I3  An accepting end that does not prove the secret learns nothing but an account.
 */
#include "control/control_priv.h"

#define SNIC_CONTROL__LABEL 24u
#define SNIC_CONTROL__TEXT (SNIC_CONTROL__LABEL + 8 + 32)

/* A MAC of the handshake. 0 or the cipher's error. */
static int control_auth_mac(const struct control_auth *a, const char *label, unsigned char out[32])
{
    unsigned char text[SNIC_CONTROL__TEXT] = {0};
    SNIC_ASSERT(strlen(label) < SNIC_CONTROL__LABEL);
    memcpy(text, label, strlen(label));
    snic_put_le32(text + SNIC_CONTROL__LABEL, a->key_id);
    snic_put_le32(text + SNIC_CONTROL__LABEL + 4, a->account);
    for (uint32_t i = 0; i < 2; i++) {
        snic_put_le64(text + SNIC_CONTROL__LABEL + 8 + 8 * i, a->connects[i]);
        snic_put_le64(text + SNIC_CONTROL__LABEL + 24 + 8 * i, a->accepts[i]);
    }
    return a->opts->sec->mac(a->secret, text, sizeof(text), out);
}

/* I1 */
static int control_auth_number(struct control_auth *a, uint64_t number[2])
{
    unsigned char text[SNIC_CONTROL__LABEL + 24] = "snic control number";
    unsigned char out[32];
    snic_put_le64(text + SNIC_CONTROL__LABEL, a->opts->seed);
    snic_put_le64(text + SNIC_CONTROL__LABEL + 8, (uint64_t)(uintptr_t)a);
    snic_put_le64(text + SNIC_CONTROL__LABEL + 16, ++a->numbers);
    int r = a->opts->sec->mac(a->secret, text, sizeof(text), out);
    number[0] = snic_get_le64(out);
    number[1] = snic_get_le64(out + 8);
    return r;
}

static int control_auth_same(const unsigned char *a, const unsigned char *b, uint32_t n)
{
    unsigned char differ = 0;
    for (uint32_t i = 0; i < n; i++) /* in constant time */
        differ |= a[i] ^ b[i];
    return differ == 0;
}

static void control_auth_msg(struct snic_control_msg *m, uint32_t step)
{
    control_msg(m, SNIC_CONTROL_AUTH, 0);
    m->op = (uint8_t)step;
}

/* From now on messages are sealed. */
static int control_auth_session(struct control_auth *a)
{
    SNIC_ASSERT(a->state == CONTROL_AUTH_WAITS);
    int r = control_auth_mac(a, "snic control 3 session", a->session);
    a->state = r == 0 ? CONTROL_AUTH_DONE : CONTROL_AUTH_WAITS;
    a->sent = a->received = 0;
    return r;
}

void control_auth_begin(struct control_auth *a, int connects)
{
    const struct snic_control_auth *opts = a->opts;
    uint64_t numbers = a->numbers;
    memset(a, 0, sizeof(*a));
    a->opts = opts;
    a->numbers = numbers;
    a->connector = (uint8_t)connects;
    a->state = a->opts == NULL ? CONTROL_AUTH_NONE : CONTROL_AUTH_WAITS;
}

int control_auth_hello(struct control_auth *a, struct snic_control_msg *out)
{
    SNIC_ASSERT(a->connector && a->state == CONTROL_AUTH_WAITS);
    a->secret = a->opts->secret;
    a->key_id = a->opts->key_id;
    a->account = a->opts->account;
    int r = control_auth_number(a, a->connects);
    if (r != 0)
        return r;
    control_auth_msg(out, 1);
    out->gen = a->key_id;
    out->vd = a->account;
    memcpy(out->uuid, a->connects, sizeof(out->uuid));
    return 0;
}

/* The accepting end, to AUTH 1. */
static int control_auth_answer(struct control_auth *a, const struct snic_control_msg *in,
                               struct snic_control_msg *out)
{
    a->key_id = in->gen;
    a->account = in->vd;
    a->secret = a->opts->secret_of != NULL ? a->opts->secret_of(a->opts->ctx, in->gen, in->vd)
                : in->gen == a->opts->key_id && in->vd == a->opts->account ? a->opts->secret
                                                                           : NULL;
    if (a->secret == NULL)
        return SNIC_EACCES;
    memcpy(a->connects, in->uuid, sizeof(a->connects));
    control_auth_msg(out, 2);
    int r = control_auth_number(a, a->accepts);
    memcpy(out->uuid, a->accepts, sizeof(out->uuid));
    if (r == 0)
        r = control_auth_mac(a, "snic control 3 accept", out->proof);
    a->challenged = r == 0;
    return r;
}

/* The connecting end, to AUTH 2. Its answer is the last message that is not sealed. */
static int control_auth_prove(struct control_auth *a, const struct snic_control_msg *in,
                              struct snic_control_msg *out)
{
    unsigned char expected[32];
    memcpy(a->accepts, in->uuid, sizeof(a->accepts));
    int r = control_auth_mac(a, "snic control 3 accept", expected);
    if (r == 0 && !control_auth_same(expected, in->proof, sizeof(expected)))
        r = SNIC_EACCES;
    control_auth_msg(out, 3);
    if (r == 0)
        r = control_auth_mac(a, "snic control 3 connect", out->proof);
    return r == 0 ? control_auth_session(a) : r;
}

/* The accepting end, to AUTH 3. */
static int control_auth_proven(struct control_auth *a, const struct snic_control_msg *in)
{
    unsigned char expected[32];
    int r = control_auth_mac(a, "snic control 3 connect", expected);
    if (r == 0 && !control_auth_same(expected, in->proof, sizeof(expected)))
        r = SNIC_EACCES;
    return r == 0 ? control_auth_session(a) : r;
}

int control_auth_take(struct control_auth *a, const struct snic_control_msg *m,
                      struct snic_control_msg *out)
{
    out->type = 0;
    if (a->state != CONTROL_AUTH_WAITS)
        return SNIC_EPROTO;
    if (m->type != SNIC_CONTROL_AUTH)
        return SNIC_EACCES;
    if (a->connector)
        return m->op == 2 ? control_auth_prove(a, m, out) : SNIC_EPROTO;
    if (m->op == 1 && !a->challenged)
        return control_auth_answer(a, m, out);
    return m->op == 3 && a->challenged ? control_auth_proven(a, m) : SNIC_EPROTO;
}

/* I2 */
static int control_auth_tag(struct control_auth *a, uint32_t direction, uint64_t number,
                            const unsigned char *message, uint32_t size, unsigned char out[32])
{
    unsigned char text[32 + SNIC_CONTROL__LABEL + 32 + 12] = {0};
    unsigned char *p = text + 32;
    int r = a->opts->sec->mac(a->secret, message, size, text);
    memcpy(p, "snic control 3 seal", 19);
    memcpy(p + SNIC_CONTROL__LABEL, a->session, 32);
    snic_put_le32(p + SNIC_CONTROL__LABEL + 32, direction);
    snic_put_le64(p + SNIC_CONTROL__LABEL + 36, number);
    return r == 0 ? a->opts->sec->mac(a->secret, text, sizeof(text), out) : r;
}

int control_auth_seal(struct control_auth *a, unsigned char *message, uint32_t size)
{
    unsigned char tag[32];
    SNIC_ASSERT(a->state == CONTROL_AUTH_DONE);
    int r = control_auth_tag(a, a->connector, a->sent, message, size, tag);
    if (r != 0)
        return r;
    a->sent++;
    memcpy(message + size, tag, SNIC_CONTROL__SEAL);
    return 0;
}

int control_auth_open(struct control_auth *a, const unsigned char *message, uint32_t size)
{
    unsigned char tag[32];
    SNIC_ASSERT(a->state == CONTROL_AUTH_DONE);
    int r = control_auth_tag(a, !a->connector, a->received, message, size, tag);
    if (r != 0)
        return r;
    a->received++;
    return control_auth_same(tag, message + size, SNIC_CONTROL__SEAL) ? 0 : SNIC_EACCES;
}

int control_auth_recheck(struct control_auth *a)
{
    if (a->opts == NULL || a->secret == NULL || a->connector || a->opts->secret_of == NULL)
        return 1;
    a->secret = a->opts->secret_of(a->opts->ctx, a->key_id, a->account);
    return a->secret != NULL;
}
