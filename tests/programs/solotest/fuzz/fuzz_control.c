/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Any bytes in reply to a control command, in pieces of any size: a reply, or a failure that says why. What INFO may
 * hold is then searched for in the reply, whose text is allocated alone, so that a read beyond it is found.
 *
 * Input: byte 0 selects the size of the output buffer; then pieces, each a length byte and its bytes. The server then
 * ends the connection.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "solotest/connection.h"
#include "solotest/ownership.h"
#include "solotest/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void search(const char *received, size_t size, size_t room)
{
    static const char *const names[] = {"redis_version", "process_id",      "used_memory",    "redis_mode",
                                        "server_mode",   "cluster_enabled", "valkey_version", ""};
    char *info = malloc(size + 1), *value = malloc(room);
    memcpy(info, received, size);
    info[size] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        info_text(info, names[i], value, room);
        if (strlen(value) >= room || strpbrk(value, "\r\n") != NULL || info_number(info, names[i]) < -1)
            abort();
    }
    (void)info_mode(info);
    (void)find_foreign_database(info);
    (void)find_expiring_keys(info);
    free(info);
    free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *const command[] = {"INFO"};
    struct failure f = {0};
    struct conn c = {.reader = conn_reader(), .open = true};
    int pair[2];
    if (size < 1 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0) { /* one read returns one piece */
        conn_close(&(struct conn){.reader = c.reader});
        return 0;
    }
    c.fd = pair[0];
    for (size_t at = 1; at < size;) {
        size_t n = (size_t)min_u64(data[at] + 1u, size - at - 1);
        if (n > 0 && send(pair[1], data + at + 1, n, MSG_DONTWAIT) != (ssize_t)n)
            break; /* more pieces than the socket holds */
        at += n + 1;
    }
    (void)shutdown(pair[1], SHUT_WR);
    redisReply *reply = conn_command(&c, 10, &f, 1, (const char **)(uintptr_t)command);
    if ((reply == NULL) != (f.exit_code == EXIT_LOST && f.message[0] != '\0'))
        abort();
    if (reply != NULL && reply->str != NULL)
        search(reply->str, strlen(reply->str), 1 + data[0]);
    if (reply != NULL)
        freeReplyObject(reply);
    (void)close(pair[1]);
    conn_close(&c);
    return 0;
}
