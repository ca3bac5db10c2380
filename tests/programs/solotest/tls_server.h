/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The server's side of TLS in memory, so that a test decides which bytes the client receives, and when.
 */
#ifndef TLS_SERVER_H
#define TLS_SERVER_H

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>

#include "solotest/tls.h"

struct tls_server {
    SSL *ssl;
    BIO *in, *out; /* memory */
};

/* A context with a certificate that nobody trusts. */
static inline SSL_CTX *tls_server_context(void)
{
    static SSL_CTX *context;
    if (context != NULL)
        return context;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    context = SSL_CTX_new(TLS_server_method());
    if (key == NULL || certificate == NULL || context == NULL ||
        X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) == NULL ||
        X509_gmtime_adj(X509_getm_notAfter(certificate), 3600) == NULL || X509_set_pubkey(certificate, key) != 1 ||
        X509_sign(certificate, key, EVP_sha256()) == 0 || SSL_CTX_use_certificate(context, certificate) != 1 ||
        SSL_CTX_use_PrivateKey(context, key) != 1)
        abort();
    X509_free(certificate);
    EVP_PKEY_free(key);
    return context;
}

/* Opens a connection from a new client, and finishes the handshake. */
static inline struct transport *tls_server_open(struct tls_server *s)
{
    static const struct settings settings = {.tls = true, .insecure = true, .host = "127.0.0.1"};
    static bool prepared;
    struct failure f = {0};
    char text[READ_SIZE];
    bool whole;
    if (!prepared && !tls_prepare(&settings, &f))
        abort();
    prepared = true;
    *s = (struct tls_server){
        .ssl = SSL_new(tls_server_context()), .in = BIO_new(BIO_s_mem()), .out = BIO_new(BIO_s_mem())};
    SSL_set_bio(s->ssl, s->in, s->out);
    SSL_set_accept_state(s->ssl);
    struct transport *client = tls_create(&settings, &f);
    size_t received = 0;
    enum handshake state;
    do {
        state = transport_shake_hands(client, received);
        size_t n = transport_output(client, text, sizeof text);
        if (state == HANDSHAKE_FAILED || BIO_write(s->in, text, (int)n) != (int)n)
            abort();
        (void)SSL_do_handshake(s->ssl);
        struct iovec room = transport_room(client, text);
        int sent = BIO_read(s->out, room.iov_base, (int)room.iov_len);
        received = sent > 0 ? (size_t)sent : 0;
    } while (state != HANDSHAKE_DONE);
    if (!SSL_is_init_finished(s->ssl) || transport_open(client, received, text, &whole) != -1) /* tickets */
        abort();
    return client;
}

/* Appends the record of a text to `to` and returns its size. */
static inline size_t tls_server_seal(struct tls_server *s, const void *text, size_t size, char *to, size_t room)
{
    if (SSL_write(s->ssl, text, (int)size) != (int)size)
        abort();
    int n = BIO_read(s->out, to, (int)room);
    return n > 0 ? (size_t)n : 0;
}

/* Decrypts what the client sent and returns the size of the text. */
static inline size_t tls_server_receive(struct tls_server *s, const void *data, size_t size, char *to, size_t room)
{
    size_t got = 0;
    int n;
    if (BIO_write(s->in, data, (int)size) != (int)size)
        abort();
    while ((n = SSL_read(s->ssl, to + got, (int)(room - got))) > 0)
        got += (size_t)n;
    return got;
}

#endif
