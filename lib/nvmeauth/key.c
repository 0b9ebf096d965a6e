/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Secrets as text. */
#include "nvmeauth/nvmeauth_priv.h"

void snic_nvmeauth_wipe(void *data, size_t size)
{
    volatile uint8_t *p = data;
    for (size_t i = 0; i < size; i++)
        p[i] = 0;
}

/* CRC-32 of IEEE 802.3. */
static uint32_t nvmeauth_crc32(const uint8_t *data, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

static int nvmeauth_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Base64 with its padding, all of it. @return bytes; SNIC_EINVAL */
static int nvmeauth_base64(uint8_t *out, size_t room, const char *text, size_t length)
{
    size_t n = 0, pads = 0;
    if (length == 0 || length % 4 != 0)
        return SNIC_EINVAL;
    pads = text[length - 1] != '=' ? 0 : text[length - 2] != '=' ? 1 : 2;
    if (length / 4 * 3 - pads > room)
        return SNIC_EINVAL;
    for (size_t i = 0; i < length; i += 4) {
        uint32_t word = 0, bytes = i + 4 < length ? 3 : (uint32_t)(3 - pads);
        for (size_t k = 0; k < 4; k++) {
            int digit = k > bytes ? 0 : nvmeauth_digit(text[i + k]);
            if (digit < 0)
                return SNIC_EINVAL;
            word = word << 6 | (uint32_t)digit;
        }
        if ((word & (UINT32_C(0xffffff) >> 8 * bytes)) != 0)
            return SNIC_EINVAL; /* bits that no byte has */
        for (uint32_t k = 0; k < bytes; k++)
            out[n++] = (uint8_t)(word >> (16 - 8 * k));
    }
    return (int)n;
}

static int nvmeauth_parse(uint8_t raw[68], uint8_t *hash, const char *text)
{
    static const char prefix[] = "DHHC-1:";
    size_t length = 0;
    if (strncmp(text, prefix, sizeof(prefix) - 1) != 0)
        return SNIC_EINVAL;
    text += sizeof(prefix) - 1;
    if (text[0] != '0' || text[1] < '0' || text[1] > '9' || text[2] != ':')
        return SNIC_EINVAL;
    if (text[1] > '3')
        return SNIC_ENOTSUP;
    *hash = (uint8_t)(text[1] - '0');
    text += 3;
    while (text[length] != 0 && text[length] != ':' && length <= 92)
        length++;
    if (text[length] != ':' ||
        (text[length + 1] != 0 && (text[length + 1] != '\n' || text[length + 2] != 0)))
        return SNIC_EINVAL;
    int n = nvmeauth_base64(raw, 68, text, length);
    if (n != 36 && n != 52 && n != 68)
        return SNIC_EINVAL;
    if (snic_get_le32(raw + n - 4) != nvmeauth_crc32(raw, (size_t)n - 4))
        return SNIC_ECORRUPT;
    return n - 4;
}

int snic_nvmeauth_key_parse(struct snic_nvmeauth_key *out, const char *text)
{
    uint8_t raw[68];
    uint8_t hash = 0;
    int n = nvmeauth_parse(raw, &hash, text);
    if (n > 0) {
        memset(out, 0, sizeof(*out));
        out->hash = hash;
        out->size = (uint8_t)n;
        memcpy(out->bytes, raw, (size_t)n);
    }
    snic_nvmeauth_wipe(raw, sizeof(raw));
    return n < 0 ? n : 0;
}
