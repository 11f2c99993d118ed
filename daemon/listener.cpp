// SPDX-License-Identifier: Apache-2.0
#include "daemon/listener.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/filesystem/operations.hpp>
#include <boost/filesystem/path.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace relay::daemon {

namespace asio = boost::asio;
using asio::local::stream_protocol;
using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Status;

namespace {

constexpr int backlog = 4096;  // what net.core.somaxconn allows by default
constexpr int accepts_a_turn = 64;

// How long to leave the door shut when descriptors ran out and not even the spare one helped.
constexpr std::chrono::milliseconds accept_rest{100};

Error failed(const std::string& verb, const std::string& path, int code) {
    return {Errc::io, code, verb + " " + path + ": " + std::strerror(code)};
}

// The directory must be ours and closed to others: whoever can write it can put another socket there.
Status prepare_directory(const std::string& path) {
    const boost::filesystem::path directory = boost::filesystem::path(path).parent_path();
    const mode_t old_mask = ::umask(0077);
    boost::system::error_code error;
    boost::filesystem::create_directories(directory, error);
    ::umask(old_mask);
    if (error) {
        return Error{
            Errc::io,
            error.value(),
            "make directory " + directory.string() + ": " + error.message()};
    }
    struct stat found {};
    if (::stat(directory.c_str(), &found) != 0) {
        return failed("look at", directory.string(), errno);
    }
    if (found.st_uid != ::geteuid()) {
        return Error{
            Errc::unsafe,
            0,
            "the socket's directory " + directory.string() + " belongs to another user"};
    }
    if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (found.st_mode & S_ISVTX) == 0) {
        return Error{
            Errc::unsafe,
            0,
            "the socket's directory " + directory.string()
                + " can be written by others; make it private: chmod 700 " + directory.string()};
    }
    return Done{};
}

}  // namespace

struct Listener::Socket {
    explicit Socket(asio::io_context& io) : acceptor(io), rest(io) {}
    stream_protocol::acceptor acceptor;
    asio::steady_timer rest;
};

Listener::Listener(asio::io_context& io, Accepted accepted, Refused refused)
    : socket_(std::make_unique<Socket>(io)),
      accepted_(std::move(accepted)),
      refused_(std::move(refused)),
      spare_fd_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
}

Listener::~Listener() {
    stop();
    if (spare_fd_ >= 0) {
        ::close(spare_fd_);
    }
}

Status Listener::bind(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        return Error{
            Errc::invalid,
            0,
            "the socket path has " + std::to_string(path.size()) + " bytes, at most "
                + std::to_string(sizeof address.sun_path - 1) + " are possible: " + path};
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    if (Status prepared = prepare_directory(path); !prepared.ok()) {
        return prepared;
    }
    struct stat present {};
    if (::lstat(path.c_str(), &present) == 0) {
        if (!S_ISSOCK(present.st_mode)) {
            return Error{
                Errc::unsafe,
                0,
                path + " exists and is no socket; remove it or choose another path"};
        }
        if (::unlink(path.c_str()) != 0) {
            return failed("remove the stale socket", path, errno);
        }
    }
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return failed("make a socket for", path, errno);
    }
    const mode_t old_mask = ::umask(0177);
    const int bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const int bind_error = errno;
    ::umask(old_mask);
    if (bound != 0) {
        ::close(fd);
        return failed("bind", path, bind_error);
    }
    bound_path_ = path;
    if (::listen(fd, backlog) != 0) {
        const int listen_error = errno;
        ::close(fd);
        return failed("listen at", path, listen_error);
    }
    return adopt(fd);
}

Status Listener::adopt(int fd) {
    boost::system::error_code error;
    socket_->acceptor.assign(stream_protocol(), fd, error);
    if (!error) {
        socket_->acceptor.non_blocking(true, error);
    }
    if (error) {
        return Error{Errc::io, error.value(), "use the listening socket: " + error.message()};
    }
    return Done{};
}

std::string Listener::path() const {
    boost::system::error_code error;  // the path is empty then
    const auto endpoint = socket_->acceptor.local_endpoint(error);
    return endpoint.path();
}

void Listener::start() {
    wait();
}

void Listener::wait() {
    if (!socket_->acceptor.is_open()) {
        return;
    }
    socket_->acceptor.async_wait(
        stream_protocol::acceptor::wait_read, [this](const boost::system::error_code& error) {
            if (!error) {
                accept_some();
            }
        });
}

void Listener::accept_some() {
    for (int turn = 0; turn < accepts_a_turn; ++turn) {
        if (!accept_one()) {
            break;
        }
    }
    if (spare_fd_ >= 0) {
        wait();
        return;
    }
    socket_->rest.expires_after(accept_rest);
    socket_->rest.async_wait([this](const boost::system::error_code& error) {
        if (!error) {
            spare_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
            accept_some();
        }
    });
}

bool Listener::accept_one() {
    const int listening = socket_->acceptor.native_handle();
    int fd = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && spare_fd_ >= 0) {
        // Nobody waits in the queue for ever because of us: take the connection and close it.
        ::close(spare_fd_);
        fd = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd >= 0) {
            ::close(fd);
        }
        spare_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        return fd >= 0 && spare_fd_ >= 0;
    }
    if (fd < 0) {
        return errno == EINTR || errno == ECONNABORTED;
    }
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid()) {
        ::close(fd);
        refused_(static_cast<std::int64_t>(peer.uid));
        return true;
    }
    accepted_(fd, peer.pid);
    return true;
}

void Listener::stop() {
    boost::system::error_code ignored;  // both let go even where they fail
    socket_->acceptor.close(ignored);
    socket_->rest.cancel(ignored);
    if (!bound_path_.empty()) {
        ::unlink(bound_path_.c_str());
        bound_path_.clear();
    }
}

}  // namespace relay::daemon
