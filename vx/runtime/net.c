/* TCP with deadlines. Sockets never block: every wait is a poll that ends at the caller's deadline.
 * Results are counts or descriptors, -errno on failure; a name that nobody knows is -ENOENT. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- waiting ----------------------------------------------------------------------------------------------- */
/* 0 when `events` (or an error to be read) are there, -ETIMEDOUT at the deadline. */
static int32_t wait_for(int32_t socket, short events, int64_t deadline) {
    enum { LONGEST_MS = 60000 };
    for (;;) {
        int64_t left = deadline - vx_time_now(), milliseconds = left / 1000000 + 1;
        if (left <= 0) return -ETIMEDOUT;
        struct pollfd ready = {.fd = socket, .events = events};
        int count = poll(&ready, 1, milliseconds < LONGEST_MS ? (int)milliseconds : LONGEST_MS);
        if (count > 0) return 0;
        if (count < 0 && errno != EINTR) return -errno;
    }
}

static bool would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK; }

/* ---- addresses --------------------------------------------------------------------------------------------- */
/* Splits HOST:PORT, [HOST]:PORT, :PORT and PORT; without a host it is this machine alone. */
static bool split(const char *address, char *host, size_t host_bytes, const char **port) {
    const char *colon = strrchr(address, ':'), *start = address, *end = colon;
    *port = colon ? colon + 1 : address;
    if (!colon || colon == address) {
        start = "127.0.0.1";
        end = start + strlen(start);
    } else if (*address == '[') {
        start = address + 1;
        if (colon < address + 2 || colon[-1] != ']') return false;
        end = colon - 1;
    } else if (memchr(address, ':', (size_t)(colon - address))) {
        return false; /* IPv6 without brackets: which colon is the port's? */
    }
    size_t length = (size_t)(end - start), digits = strspn(*port, "0123456789");
    if (length == 0 || length >= host_bytes || digits == 0 || digits > 5 || (*port)[digits]) return false;
    memcpy(host, start, length);
    host[length] = 0;
    return atoi(*port) <= 65535;
}

static int32_t error_of_lookup(int code) {
    switch (code) {
        case EAI_SYSTEM: return -errno;
        case EAI_MEMORY: return -ENOMEM;
        case EAI_AGAIN: return -EAGAIN;
        default: return -ENOENT;
    }
}

/* The addresses of HOST:PORT, in the system's order of preference; freed by freeaddrinfo. */
static int32_t look_up(const char *address, struct addrinfo **found) {
    char host[256];
    const char *port;
    if (!split(address, host, sizeof host, &port)) return -EINVAL;
    struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int code = getaddrinfo(host, port, &wanted, found);
    return code == 0 ? 0 : error_of_lookup(code);
}

/* ---- sockets ----------------------------------------------------------------------------------------------- */
static int32_t new_socket(const struct addrinfo *at) {
    int socket_ = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    return socket_ >= 0 ? socket_ : -errno;
}

static void set(int32_t socket, int level, int option, int value) {
    setsockopt(socket, level, option, &value, sizeof value);
}

/* Small messages leave at once; a peer whose machine vanished is noticed in about four seconds. */
static void prepare_stream(int32_t socket) {
    set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

static int32_t closed_with(int32_t socket, int32_t error) {
    close(socket);
    return error;
}

static int32_t listen_at(const struct addrinfo *at, int32_t backlog) {
    int32_t socket = new_socket(at);
    if (socket < 0) return socket;
    set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(socket, at->ai_addr, at->ai_addrlen) < 0) return closed_with(socket, -errno);
    if (listen(socket, backlog) < 0) return closed_with(socket, -errno);
    return socket;
}

static int32_t connect_at(const struct addrinfo *at, int64_t deadline) {
    int32_t socket = new_socket(at);
    if (socket < 0) return socket;
    if (connect(socket, at->ai_addr, at->ai_addrlen) < 0) {
        if (errno != EINPROGRESS && errno != EINTR) return closed_with(socket, -errno);
        int32_t waited = wait_for(socket, POLLOUT, deadline);
        if (waited < 0) return closed_with(socket, waited);
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error) return closed_with(socket, -error);
    }
    prepare_stream(socket);
    return socket;
}

int32_t vx_tcp_listen(const char *address, int32_t backlog) {
    struct addrinfo *found;
    int32_t result = look_up(address, &found);
    if (result < 0) return result;
    result = listen_at(found, backlog);
    freeaddrinfo(found);
    return result;
}

int32_t vx_tcp_connect(const char *address, int64_t deadline) {
    struct addrinfo *found;
    int32_t result = look_up(address, &found);
    if (result < 0) return result;
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        result = connect_at(at, deadline);
        if (result >= 0 || result == -ETIMEDOUT) break;
    }
    freeaddrinfo(found);
    return result;
}

int32_t vx_tcp_port(int32_t socket) {
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    if (getsockname(socket, (struct sockaddr *)&name, &size) < 0) return -errno;
    if (name.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)&name)->sin6_port);
    return ntohs(((struct sockaddr_in *)&name)->sin_port);
}

int32_t vx_tcp_accept(int32_t socket, int64_t deadline) {
    for (;;) {
        int stream = accept4(socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (stream >= 0) {
            prepare_stream(stream);
            return stream;
        }
        if (would_block()) {
            int32_t waited = wait_for(socket, POLLIN, deadline);
            if (waited < 0) return waited;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return -errno;
        }
    }
}

/* ---- streams ----------------------------------------------------------------------------------------------- */
int64_t vx_tcp_read(int32_t socket, void *data, int64_t bytes, int64_t deadline) {
    if (bytes <= 0) return -EINVAL; /* 0 would read as the end of the stream */
    for (;;) {
        ssize_t got = recv(socket, data, (size_t)bytes, 0);
        if (got >= 0) return got;
        if (would_block()) {
            int32_t waited = wait_for(socket, POLLIN, deadline);
            if (waited < 0) return waited;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
}

int64_t vx_tcp_read_exact(int32_t socket, void *data, int64_t bytes, int64_t deadline) {
    int64_t done = 0;
    while (done < bytes) {
        int64_t got = vx_tcp_read(socket, (char *)data + done, bytes - done, deadline);
        if (got < 0) return got;
        if (got == 0) break;
        done += got;
    }
    return done;
}

int64_t vx_tcp_write(int32_t socket, const void *data, int64_t bytes, int64_t deadline) {
    if (bytes <= 0) return 0;
    for (;;) {
        ssize_t put = send(socket, data, (size_t)bytes, MSG_NOSIGNAL);
        if (put >= 0) return put;
        if (would_block()) {
            int32_t waited = wait_for(socket, POLLOUT, deadline);
            if (waited < 0) return waited;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
}

int64_t vx_tcp_write_all(int32_t socket, const void *data, int64_t bytes, int64_t deadline) {
    int64_t done = 0;
    while (done < bytes) {
        int64_t put = vx_tcp_write(socket, (const char *)data + done, bytes - done, deadline);
        if (put < 0) return put;
        done += put;
    }
    return done;
}

int32_t vx_tcp_finish(int32_t socket) { return shutdown(socket, SHUT_WR) == 0 ? 0 : -errno; }

void vx_tcp_close(int32_t socket) { close(socket); }
