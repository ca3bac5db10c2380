/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "tls.h"

#ifdef SOLOTEST_TLS

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

enum {
    HEADER = 5,            /* bytes before the body of a record: its type, a version and its length */
    TEXT = 16384,          /* plain text of a record at most */
    OVERHEAD = 128,        /* what a record adds to it at most, with the ciphers of TLS 1.2 and 1.3 */
    LARGEST = TEXT + 2048, /* body of a record at most (RFC 5246, 6.2.3) */
};

_Static_assert(READ_SIZE > HEADER + LARGEST, "there is room for a read behind any part of a record");

struct tls {
    struct transport transport;
    SSL *ssl;
    BIO *in, *out; /* memory, which belongs to `ssl` */
    char problem[200];
    size_t used;
    char records[READ_SIZE]; /* received and not yet read */
};

static SSL_CTX *context;

static struct tls *tls_of(struct transport *t)
{
    return (struct tls *)t;
}

const char *tls_library(void)
{
    return OPENSSL_VERSION_TEXT;
}

/* Otherwise OpenSSL asks for the password of an encrypted key on the terminal. */
static int no_password(char *to, int size, int writing, void *data)
{
    (void)to, (void)size, (void)writing, (void)data;
    return -1;
}

static bool load_authorities(const struct settings *s, struct failure *f)
{
    if (s->ca_file == NULL)
        return SSL_CTX_set_default_verify_paths(context) == 1 || fail_memory(f);
    return SSL_CTX_load_verify_locations(context, s->ca_file, NULL) == 1 ||
           fail_not_allowed(f, "--cacert", s->ca_file, "a readable file with certificates (PEM)");
}

static bool load_certificate(const struct settings *s, struct failure *f)
{
    if (s->certificate == NULL)
        return true;
    if (SSL_CTX_use_certificate_chain_file(context, s->certificate) != 1)
        return fail_not_allowed(f, "--cert", s->certificate, "a readable file with a certificate (PEM)");
    if (SSL_CTX_use_PrivateKey_file(context, s->key_file, SSL_FILETYPE_PEM) != 1)
        return fail_not_allowed(f, "--key", s->key_file,
                                "a readable file with the private key of --cert (PEM, without a password)");
    return true;
}

bool tls_prepare(const struct settings *s, struct failure *f)
{
    if (!s->tls)
        return true;
    /* The machine's openssl.cnf may name modules, which a static program cannot load. */
    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1 ||
        (context = SSL_CTX_new(TLS_client_method())) == NULL ||
        SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
        return fail_memory(f);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_default_passwd_cb(context, no_password);
    SSL_CTX_set_verify(context, s->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    return load_authorities(s, f) && load_certificate(s, f);
}

/* The name that the certificate must have. An address is not sent as the server's name (RFC 6066, 3). */
static bool expect_name(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *wanted = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_ip_asc(wanted, name) == 1 ||
           (X509_VERIFY_PARAM_set1_host(wanted, name, 0) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1);
}

static void tls_free(struct transport *transport)
{
    struct tls *t = tls_of(transport);
    SSL_free(t->ssl);
    free(t);
}

static void set_problem(struct tls *t, const char *problem)
{
    if (t->problem[0] == '\0')
        (void)snprintf(t->problem, sizeof t->problem, "TLS: %s", problem);
}

/* Keeps the reason why OpenSSL failed. */
static void keep_reason(struct tls *t)
{
    const char *reason =
        ERR_reason_error_string(ERR_peek_error()); // the first one is the cause, later ones say where it was met
    set_problem(t, reason != NULL ? reason : "not enough memory");
}

static const char *tls_problem(const struct transport *transport)
{
    const struct tls *t = (const struct tls *)transport;
    return t->problem[0] != '\0' ? t->problem : NULL;
}

static bool tls_fail_handshake(const struct transport *transport, const struct settings *s, struct failure *f)
{
    const struct tls *t = (const struct tls *)transport;
    long verified = SSL_get_verify_result(t->ssl);
    if (!s->insecure && verified != X509_V_OK)
        return fail(f, EXIT_CONNECT, "tls",
                    "TLS: the certificate of the server is not accepted: %s; see --cacert and --sni",
                    X509_verify_cert_error_string(verified));
    return fail(f, EXIT_CONNECT, "tls", "%s", t->problem);
}

/* The size of the record that begins at `at`; 0 if not all of it is there. */
static size_t next_record(struct tls *t, size_t at)
{
    const unsigned char *head = (const unsigned char *)t->records + at;
    size_t left = t->used - at;
    if (left > 0 && (head[0] < SSL3_RT_CHANGE_CIPHER_SPEC || head[0] > SSL3_RT_APPLICATION_DATA)) {
        set_problem(t, "the server does not speak TLS");
        return 0;
    }
    if (left < HEADER)
        return 0;
    size_t body = (size_t)head[3] << 8 | head[4];
    if (body > LARGEST)
        set_problem(t, "the server sent a record that is too large");
    return body <= LARGEST && left >= HEADER + body ? HEADER + body : 0;
}

/* Passes one record to OpenSSL; false if there is none. */
static bool take_record(struct tls *t, size_t *at)
{
    size_t size = t->problem[0] == '\0' ? next_record(t, *at) : 0;
    if (size == 0)
        return false;
    if (BIO_write(t->in, t->records + *at, (int)size) != (int)size)
        set_problem(t, "not enough memory");
    *at += size;
    return true;
}

/* Moves the part of a record that is left to the beginning. */
static void drop_records(struct tls *t, size_t taken)
{
    memmove(t->records, t->records + taken, t->used - taken);
    t->used -= taken;
}

static enum handshake tls_shake_hands(struct transport *transport, size_t received)
{
    struct tls *t = tls_of(transport);
    size_t at = 0;
    int done;
    t->used += received;
    do {
        ERR_clear_error();
        done = SSL_do_handshake(t->ssl);
        if (done != 1 && SSL_get_error(t->ssl, done) != SSL_ERROR_WANT_READ)
            keep_reason(t);
    } while (done != 1 && take_record(t, &at));
    drop_records(t, at);
    return t->problem[0] != '\0' ? HANDSHAKE_FAILED : done == 1 ? HANDSHAKE_DONE : HANDSHAKE_WAITS;
}

static size_t tls_output(struct transport *transport, char *to, size_t size)
{
    struct tls *t = tls_of(transport);
    int n = BIO_read(t->out, to, (int)min_u64(size, INT32_MAX));
    return n > 0 ? (size_t)n : 0;
}

static size_t tls_sealed_size(size_t size)
{
    return size + (size / TEXT + 2) * OVERHEAD; /* an answer of the handshake's may have to go first */
}

static size_t tls_seal(struct transport *transport, char *data, size_t size)
{
    struct tls *t = tls_of(transport);
    size_t written = 0, sealed = 0;
    ERR_clear_error();
    if (SSL_write_ex(t->ssl, data, size, &written) == 1)
        sealed = tls_output(transport, data, tls_sealed_size(size));
    else
        keep_reason(t);
    return sealed;
}

static struct iovec tls_room(struct transport *transport)
{
    struct tls *t = tls_of(transport);
    return (struct iovec){.iov_base = t->records + t->used, .iov_len = sizeof t->records - t->used};
}

/* The plain text of one record; 0 if it has none. */
static size_t open_record(struct tls *t, char *to, size_t room)
{
    size_t size = 0;
    ERR_clear_error();
    if (SSL_read_ex(t->ssl, to, room, &size) == 1)
        return size;
    int error = SSL_get_error(t->ssl, 0);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_ZERO_RETURN)
        keep_reason(t);
    return 0;
}

static ssize_t tls_open(struct transport *transport, size_t received, char *to, bool *whole)
{
    struct tls *t = tls_of(transport);
    size_t at = 0, size = 0, last = 0;
    t->used += received;
    while (take_record(t, &at)) {
        last = open_record(t, to + size, READ_SIZE - size);
        size += last;
    }
    drop_records(t, at);
    *whole = last > 0 && t->used == 0;
    errno = t->problem[0] != '\0' ? EPROTO : EAGAIN;
    if (t->problem[0] != '\0')
        return -1;
    if (size > 0)
        return (ssize_t)size;
    return (SSL_get_shutdown(t->ssl) & SSL_RECEIVED_SHUTDOWN) != 0 ? 0 : -1;
}

static const struct transport_functions functions = {
    .failure_kind = "tls",
    .shake_hands = tls_shake_hands,
    .output = tls_output,
    .fail_handshake = tls_fail_handshake,
    .sealed_size = tls_sealed_size,
    .seal = tls_seal,
    .room = tls_room,
    .open = tls_open,
    .problem = tls_problem,
    .free = tls_free,
};

struct transport *tls_create(const struct settings *s, struct failure *f)
{
    struct tls *t = calloc(1, sizeof *t);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL *ssl = SSL_new(context);
    if (t == NULL || in == NULL || out == NULL || ssl == NULL ||
        !expect_name(ssl, s->server_name != NULL ? s->server_name : s->host)) {
        (void)fail_memory(f);
        SSL_free(ssl);
        BIO_free(in);
        BIO_free(out);
        free(t);
        return NULL;
    }
    *t = (struct tls){.transport = {&functions}, .ssl = ssl, .in = in, .out = out};
    SSL_set_bio(ssl, in, out);
    SSL_set_connect_state(ssl);
    return &t->transport;
}

#else /* built without TLS: --tls is refused */

#include <stdlib.h>

const char *tls_library(void)
{
    return NULL;
}

bool tls_prepare(const struct settings *s, struct failure *f)
{
    return !s->tls ||
           fail_usage(f, "--tls: this program was built without TLS; build it with -DSOLOTEST_TLS, -lssl and -lcrypto");
}

struct transport *tls_create(const struct settings *s, struct failure *f)
{
    (void)s, (void)f;
    abort(); /* tls_prepare() comes first */
}

#endif
