/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Any bytes from a server, in pieces of any size: no crash, no unbounded memory, and every request that was
 * sent is a success, an error of some kind, or still in flight.
 *
 * Input: byte 0 selects GET or SET, byte 1 the depth; then pieces, each a length byte and its bytes.
 */
#define _GNU_SOURCE
#include "../offline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct offline opened, *o = &opened;
    if (size < 2)
        return 0;
    offline_open(o, 5, (data[0] & 1) != 0 ? READ_MIX_ONLY_SETS : 100, 1 + data[1] % 8);
    offline_send(o);
    for (size_t at = 2; at < size;) {
        size_t n = (size_t)min_u64(data[at] + 1u, size - at - 1);
        char *alone = malloc(n); /* so that a read beyond the piece is found */
        if (n > 0)
            memcpy(alone, data + at + 1, n);
        bool goes_on = offline_consume(o, alone, n);
        free(alone);
        if (!goes_on) {
            if ((o->failure.exit_code != EXIT_LOST && o->failure.exit_code != EXIT_REQUESTS) ||
                o->exchange.in_flight != 0)
                abort();
            break;
        }
        at += n + 1;
        if (o->exchange.in_flight == 0)
            offline_send(o);
    }
    if (o->exchange.ok + o->exchange.errors.total + o->exchange.in_flight != o->exchange.sent)
        abort();
    offline_close(o);
    return 0;
}
