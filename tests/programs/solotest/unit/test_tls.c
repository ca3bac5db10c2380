/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Records that are split anywhere: which text is there, and whether the time of its arrival is known. */
#define _GNU_SOURCE
#include "solotest/tls.h"

#include <errno.h>
#include <string.h>

#include "../tls_server.h"
#include "check.h"

static char wire[4 * READ_SIZE], text[READ_SIZE];
static bool whole;

static ssize_t receive(struct transport *client, const char *data, size_t size)
{
    struct iovec room = client->does->room(client);
    CHECK(size <= room.iov_len);
    memcpy(room.iov_base, data, size);
    return transport_open(client, size, text, &whole);
}

static void test_a_read_may_end_anywhere(void)
{
    enum { RECORDS = 3 };
    static const char *const replies[RECORDS] = {"+OK\r\n", "$5\r\nhello\r\n", "$1\r\nx\r\n"};
    struct tls_server server;
    struct transport *client = tls_server_open(&server);
    size_t size = 1;
    for (size_t cut = 0; cut < size; cut++) {
        size_t ends[RECORDS], texts[RECORDS], there = 0, all = 0;
        bool at_end = false;
        size = 0;
        for (size_t i = 0; i < RECORDS; i++) {
            size += tls_server_seal(&server, replies[i], strlen(replies[i]), wire + size, sizeof wire - size);
            all += strlen(replies[i]);
            ends[i] = size;
            texts[i] = all;
        }
        for (size_t i = 0; i < RECORDS; i++)
            if (ends[i] <= cut) {
                there = texts[i];
                at_end = ends[i] == cut;
            }
        ssize_t n = receive(client, wire, cut);
        CHECK(there > 0 ? n == (ssize_t)there : n == -1 && errno == EAGAIN);
        CHECK(whole == at_end);
        CHECK(receive(client, wire + cut, size - cut) == (ssize_t)(all - there) && whole);
        CHECK(memcmp(text, "+OK\r\n$5\r\nhello\r\n$1\r\nx\r\n" + there, all - there) == 0);
    }
    transport_free(client);
    SSL_free(server.ssl);
}

static void test_a_record_without_text_hides_when_the_text_came(void)
{
    struct tls_server server;
    struct transport *client = tls_server_open(&server);
    size_t size = tls_server_seal(&server, "+OK\r\n", 5, wire, sizeof wire);
    CHECK(SSL_new_session_ticket(server.ssl) == 1 && SSL_do_handshake(server.ssl) == 1);
    size_t ticket = (size_t)BIO_read(server.out, wire + size, (int)(sizeof wire - size));
    CHECK(ticket > 0 && receive(client, wire, size + ticket) == 5 && !whole);
    size = tls_server_seal(&server, "+OK\r\n", 5, wire, sizeof wire);
    CHECK(receive(client, wire, size) == 5 && whole);
    transport_free(client);
    SSL_free(server.ssl);
}

static void test_commands_of_any_size(void)
{
    static const size_t sizes[] = {1, 100, 16384, 16385, 40000, READ_SIZE};
    static char command[READ_SIZE], sealed[2 * READ_SIZE], received[READ_SIZE];
    struct tls_server server;
    struct transport *client = tls_server_open(&server);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < sizes[i]; k++)
            command[k] = (char)(k * 7 + i);
        memcpy(sealed, command, sizes[i]);
        size_t n = transport_seal(client, sealed, sizes[i]);
        CHECK(n > sizes[i] && n <= transport_sealed_size(client, sizes[i]));
        CHECK(tls_server_receive(&server, sealed, n, received, sizeof received) == sizes[i]);
        CHECK(memcmp(received, command, sizes[i]) == 0);
    }
    transport_free(client);
    SSL_free(server.ssl);
}

/* The answer to a request for new keys goes before the next command, in the room that there is for it. */
static void test_new_keys(void)
{
    struct tls_server server;
    struct transport *client = tls_server_open(&server);
    char command[512], received[512];
    for (int i = 0; i < 5; i++) {
        CHECK(SSL_key_update(server.ssl, SSL_KEY_UPDATE_REQUESTED) == 1 && SSL_do_handshake(server.ssl) == 1);
        size_t size = (size_t)BIO_read(server.out, wire, sizeof wire);
        CHECK(receive(client, wire, size) == -1 && errno == EAGAIN && !whole);
        memcpy(command, "command", 7);
        size = transport_seal(client, command, 7);
        CHECK(size > 0 && size <= transport_sealed_size(client, 7));
        CHECK(tls_server_receive(&server, command, size, received, sizeof received) == 7);
        size = tls_server_seal(&server, "+OK\r\n", 5, wire, sizeof wire);
        CHECK(receive(client, wire, size) == 5 && whole);
    }
    transport_free(client);
    SSL_free(server.ssl);
}

static void test_an_end_and_nonsense(void)
{
    struct tls_server server;
    struct transport *client = tls_server_open(&server);
    size_t size = tls_server_seal(&server, "+OK\r\n", 5, wire, sizeof wire);
    CHECK(SSL_shutdown(server.ssl) == 0);
    size_t end = (size_t)BIO_read(server.out, wire + size, (int)(sizeof wire - size));
    CHECK(receive(client, wire, size + end) == 5 && !whole && transport_problem(client) == NULL);
    CHECK(receive(client, wire, 0) == 0);
    transport_free(client);
    SSL_free(server.ssl);

    client = tls_server_open(&server);
    size = tls_server_seal(&server, "+OK\r\n", 5, wire, sizeof wire);
    wire[size - 1] ^= 1;
    CHECK(receive(client, wire, size) == -1 && errno == EPROTO && transport_problem(client) != NULL);
    CHECK(transport_seal(client, text, 0) == 0);
    transport_free(client);
    SSL_free(server.ssl);
}

TEST_MAIN(TEST(test_a_read_may_end_anywhere), TEST(test_a_record_without_text_hides_when_the_text_came),
          TEST(test_commands_of_any_size), TEST(test_new_keys), TEST(test_an_end_and_nonsense))
