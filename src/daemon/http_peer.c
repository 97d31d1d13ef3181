/* SPDX-License-Identifier: Apache-2.0 */
/* See http_peer.h. NETLINK_SOCK_DIAG, sock_diag(7): one question for the socket whose own address
 * is our peer's, and whose peer's is our own. The kernel answers before the send returns. */
#include "daemon/http_peer.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 asked;
};

static bool put_end(const struct sockaddr_storage *end, __be16 *port, __be32 address[4])
{
    if (end->ss_family == AF_INET) {
        struct sockaddr_in in;

        memcpy(&in, end, sizeof(in));
        *port = in.sin_port;
        memcpy(address, &in.sin_addr, sizeof(in.sin_addr));
        return true;
    }
    if (end->ss_family == AF_INET6) {
        struct sockaddr_in6 in;

        memcpy(&in, end, sizeof(in));
        *port = in.sin6_port;
        memcpy(address, &in.sin6_addr, sizeof(in.sin6_addr));
        return true;
    }
    return false;
}

static bool make_question(int fd, struct question *question)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_bytes = sizeof(own), peer_bytes = sizeof(peer);
    struct inet_diag_sockid *id = &question->asked.id;

    if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) != 0 ||
        getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) != 0)
        return false;
    memset(question, 0, sizeof(*question));
    question->head = (struct nlmsghdr){.nlmsg_len = sizeof(*question),
                                       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                                       .nlmsg_flags = NLM_F_REQUEST};
    question->asked.sdiag_family = (__u8)own.ss_family;
    question->asked.sdiag_protocol = IPPROTO_TCP;
    question->asked.idiag_states = ~0u;
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    return put_end(&peer, &id->idiag_sport, id->idiag_src) &&
           put_end(&own, &id->idiag_dport, id->idiag_dst);
}

bool http_peer_uid(int fd, uint32_t *uid)
{
    struct question question;
    struct {
        struct nlmsghdr head;
        struct inet_diag_msg said;
        uint8_t rest[512];
    } answer;
    int sock;
    ssize_t bytes = -1;

    if (!make_question(fd, &question))
        return false;
    sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (sock < 0)
        return false;
    if (send(sock, &question, sizeof(question), MSG_DONTWAIT) == (ssize_t)sizeof(question))
        bytes = recv(sock, &answer, sizeof(answer), MSG_DONTWAIT);
    close(sock);
    /* One that its process has closed is nobody's: its uid is said to be 0, as is its inode. */
    if (bytes < (ssize_t)(sizeof(answer.head) + sizeof(answer.said)) ||
        answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || answer.said.idiag_inode == 0 ||
        answer.said.id.idiag_sport != question.asked.id.idiag_sport ||
        answer.said.id.idiag_dport != question.asked.id.idiag_dport)
        return false;
    *uid = answer.said.idiag_uid;
    return true;
}
