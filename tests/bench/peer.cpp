// SPDX-License-Identifier: Apache-2.0

// What one would write instead of agent-relayd: takes the same lines over a Unix socket, keeps them in a
// simpler way, and acks an event that has an id once it is as durable as that way makes it. It reads no more
// of the JSON than it needs, which is little.
//
//     relay_peer <way> <directory> <socket>
//
// A thread a client, but for sqlite-batched and socket, where one thread commits whatever has come.

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace relay::tests {
namespace {

[[noreturn]] void fail(const std::string& sentence) {
    static_cast<void>(std::fprintf(stderr, "relay_peer: %s\n", sentence.c_str()));
    ::_exit(1);
}

void require(bool good, const char* what) {
    if (!good) {
        fail(std::string(what) + ": " + std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
    }
}

// -- the lines

struct Line {
    std::string_view id;  // empty: nobody waits
    std::string_view type;
    std::string_view session;
    std::string_view data;  // of the text, or all members behind the session
    std::string_view whole;
};

std::string_view quoted_after(std::string_view text, std::string_view key) {
    const std::size_t at = text.find(key);
    if (at == std::string_view::npos) {
        return {};
    }
    text.remove_prefix(at + key.size());
    return text.substr(0, text.find('"'));
}

Line read_line(std::string_view text) {
    Line line;
    line.whole = text;
    constexpr std::string_view id = R"({"id":)";
    if (text.starts_with(id)) {
        line.id = text.substr(id.size(), text.find(',') - id.size());
    }
    line.type = quoted_after(text, R"("type":")");
    line.session = quoted_after(text, R"("session":")");
    const std::size_t members =
        static_cast<std::size_t>(line.session.data() + line.session.size() - text.data()) + 2;
    line.data = members < text.size() ? text.substr(members) : std::string_view();
    return line;
}

std::string ack_of(std::string_view id) {
    return R"({"type":"ack","id":)" + std::string(id) + "}\n";
}

// -- the ways to keep them

class Store {
public:
    Store() = default;
    virtual ~Store() = default;
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;
    virtual void record(const Line& line) = 0;
    virtual void commit() = 0;  // everything recorded so far is as durable as it gets
};

void write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(fd, bytes.data(), bytes.size());
        require(count > 0, "write");
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
}

// One growing file a session.
class JsonLines final : public Store {
public:
    JsonLines(const std::string& directory, int number, bool syncs)
        : fd_(::open(
            (directory + "/" + std::to_string(number) + ".jsonl").c_str(),
            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
            0600)),
          syncs_(syncs) {
        require(fd_ >= 0, "open");
    }
    ~JsonLines() override { ::close(fd_); }
    void record(const Line& line) override {
        buffer_.assign(line.whole).append("\n");
        write_all(fd_, buffer_);
    }
    void commit() override { require(!syncs_ || ::fdatasync(fd_) == 0, "fdatasync"); }

private:
    int fd_;
    bool syncs_;
    std::string buffer_;
};

// Four files a turn: prompt and state written aside, synced, renamed, and the directory synced; the streams
// appended to and synced.
class AtomicFiles final : public Store {
public:
    AtomicFiles(const std::string& directory, int number)
        : directory_(directory + "/" + std::to_string(number)) {
        require(::mkdir(directory_.c_str(), 0700) == 0, "mkdir");
        directory_fd_ = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        require(directory_fd_ >= 0, "open");
    }
    ~AtomicFiles() override {
        close_streams();
        ::close(directory_fd_);
    }

    void record(const Line& line) override {
        if (line.type == "turn.start") {
            ++turn_;
            replace("prompt.md", line.data);
        } else if (line.type == "turn.output") {
            append(output_, "output.md", line.data);
        } else if (line.type == "turn.stderr") {
            append(standard_error_, "stderr.log", line.data);
        } else if (line.type == "turn.end") {
            replace("state.json", line.data);
            ends_ = true;
        }
    }

    void commit() override {
        for (Stream* stream : {&output_, &standard_error_}) {
            require(!stream->dirty || ::fdatasync(stream->fd) == 0, "fdatasync");
            stream->dirty = false;
        }
        for (const auto& [fd, name] : staged_) {
            require(::fsync(fd) == 0, "fsync");
            ::close(fd);
            require(::rename((name + ".tmp").c_str(), name.c_str()) == 0, "rename");
        }
        if (!staged_.empty()) {
            require(::fsync(directory_fd_) == 0, "fsync");
        }
        staged_.clear();
        if (std::exchange(ends_, false)) {
            close_streams();
        }
    }

private:
    struct Stream {
        int fd = -1;
        bool dirty = false;
    };

    [[nodiscard]] std::string name_of(const char* kind) const {
        return directory_ + "/" + std::to_string(turn_) + "-" + kind;
    }
    void replace(const char* kind, std::string_view data) {
        const std::string name = name_of(kind);
        const int fd =
            ::open((name + ".tmp").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        require(fd >= 0, "open");
        write_all(fd, data);
        staged_.emplace_back(fd, name);
    }
    void append(Stream& stream, const char* kind, std::string_view data) const {
        if (stream.fd < 0) {
            stream.fd =
                ::open(name_of(kind).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
            require(stream.fd >= 0, "open");
        }
        write_all(stream.fd, data);
        stream.dirty = true;
    }
    void close_streams() {
        for (Stream* stream : {&output_, &standard_error_}) {
            if (stream->fd >= 0) {
                ::close(std::exchange(stream->fd, -1));
            }
        }
    }

    std::string directory_;
    int directory_fd_ = -1;
    int turn_ = 0;
    bool ends_ = false;
    Stream output_;
    Stream standard_error_;
    std::vector<std::pair<int, std::string>> staged_;
};

// A row an event, in one database of all clients.
class Sqlite final : public Store {
public:
    Sqlite(const std::string& directory, const char* synchronous) {
        constexpr int patience_ms = 600'000;
        check(sqlite3_open((directory + "/events.db").c_str(), &database_));
        sqlite3_busy_timeout(database_, patience_ms);
        run("PRAGMA journal_mode=WAL");
        run((std::string("PRAGMA synchronous=") + synchronous).c_str());
        run("CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, session TEXT, type TEXT, "
            "body TEXT)");
        check(sqlite3_prepare_v2(
            database_,
            "INSERT INTO events (session, type, body) VALUES (?1, ?2, ?3)",
            -1,
            &insert_,
            nullptr));
        check(sqlite3_prepare_v2(database_, "BEGIN IMMEDIATE", -1, &begin_, nullptr));
        check(sqlite3_prepare_v2(database_, "COMMIT", -1, &commit_, nullptr));
    }
    ~Sqlite() override {
        for (sqlite3_stmt* statement : {insert_, begin_, commit_}) {
            sqlite3_finalize(statement);
        }
        sqlite3_close(database_);
    }

    void record(const Line& line) override {
        if (!std::exchange(open_, true)) {
            step(begin_);
        }
        int column = 0;
        for (const std::string_view text : {line.session, line.type, line.data}) {
            check(sqlite3_bind_text(
                insert_, ++column, text.data(), static_cast<int>(text.size()), SQLITE_STATIC));
        }
        step(insert_);
    }
    void commit() override {
        if (std::exchange(open_, false)) {
            step(commit_);
        }
    }

private:
    void check(int code) {
        if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW) {
            fail(sqlite3_errmsg(database_));
        }
    }
    void run(const char* statement) {
        check(sqlite3_exec(database_, statement, nullptr, nullptr, nullptr));
    }
    void step(sqlite3_stmt* statement) {
        check(sqlite3_step(statement));
        check(sqlite3_reset(statement));
    }

    sqlite3* database_ = nullptr;
    sqlite3_stmt* insert_ = nullptr;
    sqlite3_stmt* begin_ = nullptr;
    sqlite3_stmt* commit_ = nullptr;
    bool open_ = false;
};

// What no server can do without: a log written in place, synced, and then a plain file a session. No document, no
// timeline, no checkpoint: the limit of everything that is spoken to over a socket.
class LogAndFile final : public Store {
public:
    explicit LogAndFile(std::string directory) : directory_(std::move(directory)) {
        log_ = ::open((directory_ + "/log").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        require(log_ >= 0, "open");
        write_all(log_, std::string(log_bytes, 'x'));
        require(::fsync(log_) == 0, "fsync");
    }
    ~LogAndFile() override { ::close(log_); }

    void record(const Line& line) override {
        batch_.append(line.whole).append("\n");
        waiting_.emplace_back(line.session, line.data);
    }
    void commit() override {
        if (batch_.empty()) {
            return;
        }
        batch_.resize((batch_.size() + block_bytes - 1) / block_bytes * block_bytes);
        if (at_ + batch_.size() > log_bytes) {
            at_ = 0;
        }
        const ssize_t count = ::pwrite(log_, batch_.data(), batch_.size(), static_cast<off_t>(at_));
        require(count == static_cast<ssize_t>(batch_.size()), "pwrite");
        require(::fdatasync(log_) == 0, "fdatasync");
        at_ += batch_.size();
        batch_.clear();
        for (const auto& [session, data] : waiting_) {
            write_all(file_of(session), data);
        }
        waiting_.clear();
    }

private:
    static constexpr std::size_t block_bytes = 4096;
    static constexpr std::size_t log_bytes = std::size_t{32} << 20;

    int file_of(const std::string& session) {
        auto [known, added] = files_.try_emplace(session, -1);
        if (added) {
            known->second = ::open(
                (directory_ + "/" + session).c_str(),
                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                0600);
            require(known->second >= 0, "open");
        }
        return known->second;
    }

    std::string directory_;
    int log_ = -1;
    std::size_t at_ = 0;
    std::string batch_;
    std::vector<std::pair<std::string, std::string>> waiting_;
    std::map<std::string, int> files_;
};

// -- the clients

class Client {
public:
    explicit Client(int fd) : fd_(fd) {}
    ~Client() { ::close(fd_); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    [[nodiscard]] int descriptor() const { return fd_; }

    // Reads once; false at the end. `each` gets every whole line.
    [[nodiscard]] bool read(const std::function<void(const Line&)>& each) {
        std::array<char, 65536> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
        const ssize_t count = ::recv(fd_, buffer.data(), buffer.size(), 0);
        if (count <= 0) {
            return false;
        }
        held_.append(buffer.data(), static_cast<std::size_t>(count));
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = held_.find('\n', begin)) != std::string::npos;) {
            each(read_line(std::string_view(held_).substr(begin, end - begin)));
            begin = end + 1;
        }
        held_.erase(0, begin);
        return true;
    }
    void answer(std::string_view id) { acks_ += ack_of(id); }
    void flush() {
        if (!acks_.empty()) {
            // A client that is gone shows at the next read.
            static_cast<void>(::send(fd_, acks_.data(), acks_.size(), MSG_NOSIGNAL));
            acks_.clear();
        }
    }

private:
    int fd_;
    std::string held_;
    std::string acks_;
};

void serve(int fd, Store& store) {
    Client client(fd);
    while (client.read([&](const Line& line) {
        store.record(line);
        if (!line.id.empty()) {
            store.commit();
            client.answer(line.id);
        }
    })) {
        client.flush();
    }
}

using MakeStore = std::function<std::unique_ptr<Store>(int number)>;

void serve_by_threads(int listening, const MakeStore& make_store) {
    for (int number = 0;; ++number) {
        const int fd = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
        require(fd >= 0, "accept");
        std::thread([fd, number, make_store] {
            const auto store = make_store(number);
            serve(fd, *store);
        }).detach();
    }
}

// One transaction for whatever came while the last one was being synced.
void serve_in_batches(int listening, Store& store) {
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    const auto watch = [epoll](int fd) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.fd = fd;
        require(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
    };
    watch(listening);
    std::map<int, std::unique_ptr<Client>> clients;
    std::array<epoll_event, 1024> ready{};
    for (;;) {
        const int count =
            ::epoll_wait(epoll, ready.data(), static_cast<int>(ready.size()), /*timeout=*/-1);
        std::vector<Client*> answered;
        for (int index = 0; index < count; ++index) {
            const int fd = ready[static_cast<std::size_t>(index)].data.fd;
            if (fd == listening) {
                const int fresh = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
                require(fresh >= 0, "accept");
                clients.emplace(fresh, std::make_unique<Client>(fresh));
                watch(fresh);
                continue;
            }
            Client& client = *clients.at(fd);
            const bool more = client.read([&](const Line& line) {
                store.record(line);
                if (!line.id.empty()) {
                    client.answer(line.id);
                }
            });
            if (more) {
                answered.push_back(&client);
            } else {
                clients.erase(fd);
            }
        }
        store.commit();
        for (Client* client : answered) {
            client->flush();
        }
    }
}

int listen_at(const std::string& path) {
    constexpr int backlog = 1024;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    require(path.size() < sizeof(address.sun_path), "socket path");
    std::memcpy(address.sun_path, path.data(), path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
    require(::bind(fd, generic, sizeof(address)) == 0 && ::listen(fd, backlog) == 0, "listen");
    return fd;
}

void run(const std::string& way, const std::string& directory, const std::string& socket) {
    const int listening = listen_at(socket);
    if (way == "jsonl-sync" || way == "jsonl") {
        serve_by_threads(listening, [&](int number) {
            return std::make_unique<JsonLines>(directory, number, way == "jsonl-sync");
        });
    } else if (way == "files") {
        serve_by_threads(listening, [&](int number) {
            return std::make_unique<AtomicFiles>(directory, number);
        });
    } else if (way == "sqlite-full" || way == "sqlite-normal") {
        const char* const synchronous = way == "sqlite-full" ? "FULL" : "NORMAL";
        const Sqlite first(directory, synchronous);  // makes the table before anybody is in a hurry
        serve_by_threads(listening, [&](int /*number*/) {
            return std::make_unique<Sqlite>(directory, synchronous);
        });
    } else if (way == "sqlite-batched") {
        Sqlite store(directory, "FULL");
        serve_in_batches(listening, store);
    } else if (way == "socket") {
        LogAndFile store(directory);
        serve_in_batches(listening, store);
    }
    fail("no way \"" + way + "\"");
}

}  // namespace
}  // namespace relay::tests

int main(int count, char** arguments) {
    if (count != 4) {
        static_cast<void>(std::fputs("usage: relay_peer <way> <directory> <socket>\n", stderr));
        return 2;
    }
    static_cast<void>(std::signal(SIGTERM, [](int) { ::_exit(0); }));
    relay::tests::run(arguments[1], arguments[2], arguments[3]);
    return 0;
}
