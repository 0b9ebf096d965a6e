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
static int control_auth_mac(const struct control_stream *s, const char *label,
                            unsigned char out[32])
{
    const struct control_stream_auth *a = &s->auth;
    unsigned char text[SNIC_CONTROL__TEXT] = {0};
    memcpy(text, label, strlen(label));
    snic_put_le32(text + SNIC_CONTROL__LABEL, a->key_id);
    snic_put_le32(text + SNIC_CONTROL__LABEL + 4, a->account);
    for (uint32_t i = 0; i < 2; i++) {
        snic_put_le64(text + SNIC_CONTROL__LABEL + 8 + 8 * i, a->connects[i]);
        snic_put_le64(text + SNIC_CONTROL__LABEL + 24 + 8 * i, a->accepts[i]);
    }
    return s->opts->sec->mac(a->secret, text, sizeof(text), out);
}

/* I1 */
static int control_auth_number(struct control_stream *s, uint64_t number[2])
{
    unsigned char text[SNIC_CONTROL__LABEL + 24] = "snic control number";
    unsigned char out[32];
    snic_put_le64(text + SNIC_CONTROL__LABEL, s->opts->seed);
    snic_put_le64(text + SNIC_CONTROL__LABEL + 8, (uint64_t)(uintptr_t)s);
    snic_put_le64(text + SNIC_CONTROL__LABEL + 16, ++s->auth.numbers);
    int r = s->opts->sec->mac(s->auth.secret, text, sizeof(text), out);
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
static int control_auth_session(struct control_stream *s)
{
    int r = control_auth_mac(s, "snic control 3 session", s->auth.session);
    s->auth.state = r == 0 ? CONTROL_AUTH_DONE : CONTROL_AUTH_WAITS;
    s->auth.sent = s->auth.came = 0;
    return r;
}

void control_auth_begin(struct control_stream *s, int connects)
{
    uint64_t numbers = s->auth.numbers;
    memset(&s->auth, 0, sizeof(s->auth));
    s->auth.numbers = numbers;
    s->auth.connector = (uint8_t)connects;
    s->auth.state = s->opts == NULL ? CONTROL_AUTH_NONE : CONTROL_AUTH_WAITS;
}

int control_auth_hello(struct control_stream *s)
{
    struct snic_control_msg m;
    struct control_stream_auth *a = &s->auth;
    a->secret = s->opts->secret;
    a->key_id = s->opts->key_id;
    a->account = s->opts->account;
    int r = control_auth_number(s, a->connects);
    if (r != 0)
        return r;
    control_auth_msg(&m, 1);
    m.gen = a->key_id;
    m.vd = a->account;
    memcpy(m.uuid, a->connects, sizeof(m.uuid));
    return control_stream_send(s, &m, 0);
}

/* The accepting end, to AUTH 1. */
static int control_auth_answer(struct control_stream *s, const struct snic_control_msg *in)
{
    struct snic_control_msg m;
    struct control_stream_auth *a = &s->auth;
    a->key_id = in->gen;
    a->account = in->vd;
    a->secret = s->opts->secret_of != NULL ? s->opts->secret_of(s->opts->ctx, in->gen, in->vd)
                : in->gen == s->opts->key_id && in->vd == s->opts->account ? s->opts->secret
                                                                           : NULL;
    if (a->secret == NULL)
        return SNIC_EACCES;
    memcpy(a->connects, in->uuid, sizeof(a->connects));
    control_auth_msg(&m, 2);
    int r = control_auth_number(s, a->accepts);
    memcpy(m.uuid, a->accepts, sizeof(m.uuid));
    if (r == 0)
        r = control_auth_mac(s, "snic control 3 accept", m.proof);
    if (r != 0)
        return r;
    a->asked = 1;
    return control_stream_send(s, &m, 0);
}

/* The connecting end, to AUTH 2. */
static int control_auth_prove(struct control_stream *s, const struct snic_control_msg *in)
{
    struct snic_control_msg m;
    unsigned char want[32];
    memcpy(s->auth.accepts, in->uuid, sizeof(s->auth.accepts));
    int r = control_auth_mac(s, "snic control 3 accept", want);
    if (r == 0 && !control_auth_same(want, in->proof, sizeof(want)))
        r = SNIC_EACCES;
    control_auth_msg(&m, 3);
    if (r == 0)
        r = control_auth_mac(s, "snic control 3 connect", m.proof);
    if (r == 0)
        r = control_stream_send(s, &m, 0); /* the last that is not sealed */
    return r == 0 ? control_auth_session(s) : r;
}

/* The accepting end, to AUTH 3. */
static int control_auth_proven(struct control_stream *s, const struct snic_control_msg *in)
{
    unsigned char want[32];
    int r = control_auth_mac(s, "snic control 3 connect", want);
    if (r == 0 && !control_auth_same(want, in->proof, sizeof(want)))
        r = SNIC_EACCES;
    return r == 0 ? control_auth_session(s) : r;
}

int control_auth_take(struct control_stream *s, const struct snic_control_msg *m)
{
    const struct control_stream_auth *a = &s->auth;
    if (a->state != CONTROL_AUTH_WAITS)
        return SNIC_EPROTO;
    if (m->type != SNIC_CONTROL_AUTH)
        return SNIC_EACCES;
    if (a->connector)
        return m->op == 2 ? control_auth_prove(s, m) : SNIC_EPROTO;
    if (m->op == 1 && !a->asked)
        return control_auth_answer(s, m);
    return m->op == 3 && a->asked ? control_auth_proven(s, m) : SNIC_EPROTO;
}

/* I2 */
static int control_auth_tag(struct control_stream *s, uint32_t direction, uint64_t number,
                            const unsigned char *message, uint32_t size, unsigned char out[32])
{
    unsigned char text[32 + SNIC_CONTROL__LABEL + 32 + 12] = {0};
    unsigned char *p = text + 32;
    int r = s->opts->sec->mac(s->auth.secret, message, size, text);
    memcpy(p, "snic control 3 seal", 19);
    memcpy(p + SNIC_CONTROL__LABEL, s->auth.session, 32);
    snic_put_le32(p + SNIC_CONTROL__LABEL + 32, direction);
    snic_put_le64(p + SNIC_CONTROL__LABEL + 36, number);
    return r == 0 ? s->opts->sec->mac(s->auth.secret, text, sizeof(text), out) : r;
}

int control_auth_seal(struct control_stream *s, unsigned char *message, uint32_t size)
{
    unsigned char tag[32];
    int r = control_auth_tag(s, s->auth.connector, s->auth.sent, message, size, tag);
    if (r != 0)
        return r;
    s->auth.sent++;
    memcpy(message + size, tag, SNIC_CONTROL__SEAL);
    return 0;
}

int control_auth_open(struct control_stream *s, const unsigned char *message, uint32_t size)
{
    unsigned char tag[32];
    int r = control_auth_tag(s, !s->auth.connector, s->auth.came, message, size, tag);
    if (r != 0)
        return r;
    s->auth.came++;
    return control_auth_same(tag, message + size, SNIC_CONTROL__SEAL) ? 0 : SNIC_EACCES;
}

void control_auth_again(struct control_stream *s)
{
    struct control_stream_auth *a = &s->auth;
    if (s->conn == NULL || s->opts == NULL || a->secret == NULL || a->connector ||
        s->opts->secret_of == NULL)
        return;
    a->secret = s->opts->secret_of(s->opts->ctx, a->key_id, a->account);
    if (a->secret == NULL)
        control_stream_abort(s);
}
