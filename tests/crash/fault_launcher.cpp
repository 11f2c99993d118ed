// SPDX-License-Identifier: Apache-2.0

// Runs a program and interferes with its N-th system call, counted over all of its threads:
//
//   relay_fault [--under DIR] --report FILE
//               [--kill N | --tear N | --short N | --lie | --error ERRNO N [--ever]] -- PROGRAM ARGUMENT...
//
// Counted are the calls that change or ask a file system, of those with a path or descriptor below
// --under only these, and with --kill also the calls that speak to a socket.
//
//   --kill   ends the program before the call
//   --tear   does half of the write and ends the program; before any other call like --kill
//   --short  does half of the write; any other call is left alone
//   --lie    answers every sync with success and does not make it, from the first one on
//   --error  refuses the call; with --ever this one and all later ones of its name, until SIGUSR1
//
// The report says how many calls were counted ("calls 412") and with which one it interfered
// ("hit 37 pwrite64 /path"). Ends with the program's status, and after it: SIGTERM goes to the program,
// SIGINT kills it.

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/limits.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

// How a call names what it works on.
enum class Names { descriptor, path, path_at, link_at, socket };

struct Call {
    long number;
    const char* name;
    Names names;
};

// What the program's C library makes of its calls on any architecture; those that only some have are
// not needed there.
constexpr Call calls[] = {
    {SYS_openat, "openat", Names::path_at},
    {SYS_openat2, "openat2", Names::path_at},
    {SYS_newfstatat, "newfstatat", Names::path_at},
    {SYS_fstat, "fstat", Names::descriptor},
    {SYS_statx, "statx", Names::path_at},
    {SYS_fstatfs, "fstatfs", Names::descriptor},
    {SYS_getdents64, "getdents64", Names::descriptor},
    {SYS_read, "read", Names::descriptor},
    {SYS_pread64, "pread64", Names::descriptor},
    {SYS_write, "write", Names::descriptor},
    {SYS_pwrite64, "pwrite64", Names::descriptor},
    {SYS_fdatasync, "fdatasync", Names::descriptor},
    {SYS_fsync, "fsync", Names::descriptor},
    {SYS_syncfs, "syncfs", Names::descriptor},
    {SYS_sync_file_range, "sync_file_range", Names::descriptor},
    {SYS_ftruncate, "ftruncate", Names::descriptor},
    {SYS_fallocate, "fallocate", Names::descriptor},
    {SYS_flock, "flock", Names::descriptor},
    {SYS_fchmod, "fchmod", Names::descriptor},
    {SYS_mkdirat, "mkdirat", Names::path_at},
    {SYS_unlinkat, "unlinkat", Names::path_at},
    {SYS_renameat, "renameat", Names::path_at},
    {SYS_renameat2, "renameat2", Names::path_at},
    {SYS_symlinkat, "symlinkat", Names::link_at},
    {SYS_linkat, "linkat", Names::path_at},
#ifdef SYS_mkdir
    {SYS_mkdir, "mkdir", Names::path},
    {SYS_unlink, "unlink", Names::path},
    {SYS_rename, "rename", Names::path},
#endif
    {SYS_bind, "bind", Names::socket},
    {SYS_listen, "listen", Names::socket},
    {SYS_accept4, "accept4", Names::socket},
    {SYS_recvfrom, "recvfrom", Names::socket},
    {SYS_recvmsg, "recvmsg", Names::socket},
    {SYS_sendto, "sendto", Names::socket},
    {SYS_sendmsg, "sendmsg", Names::socket},
};

const Call* call_of(long number) {
    for (const Call& call : calls) {
        if (call.number == number) {
            return &call;
        }
    }
    return nullptr;
}

bool is_sync(long number) {
    return number == SYS_fdatasync || number == SYS_fsync || number == SYS_syncfs;
}

const std::map<std::string_view, int> errors{
    {"EIO", EIO},
    {"ENOSPC", ENOSPC},
    {"EDQUOT", EDQUOT},
    {"EROFS", EROFS},
    {"EMFILE", EMFILE},
    {"ENOMEM", ENOMEM},
    {"EACCES", EACCES},
    {"ENOENT", ENOENT},
    {"EINTR", EINTR},
};

enum class Fault { none, kill, tear, shorten, lie, error };

struct Order {
    std::string under;
    std::string report;
    Fault fault = Fault::none;
    long at = 0;
    int error = 0;
    bool ever = false;
    std::vector<char*> program;
};

pid_t program_pid = 0;
volatile sig_atomic_t healed = 0;

void pass_on(int number) {
    if (program_pid > 0) {
        ::kill(program_pid, number == SIGINT ? SIGKILL : number);
    }
}

void heal(int) {
    healed = 1;
}

[[noreturn]] void complain(const std::string& sentence) {
    static_cast<void>(::fprintf(stderr, "relay_fault: %s\n", sentence.c_str()));
    ::exit(125);
}

Order parse(int count, char** words) {
    Order order;
    int at = 1;
    const auto next = [&]() -> std::string {
        if (++at >= count) {
            complain(std::string(words[at - 1]) + " wants a value");
        }
        return words[at];
    };
    const std::map<std::string_view, Fault> faults{
        {"--kill", Fault::kill}, {"--tear", Fault::tear}, {"--short", Fault::shorten}};
    for (; at < count && std::string_view(words[at]) != "--"; ++at) {
        const std::string_view word = words[at];
        if (word == "--under") {
            order.under = next();
        } else if (word == "--report") {
            order.report = next();
        } else if (word == "--ever") {
            order.ever = true;
        } else if (word == "--lie") {
            order.fault = Fault::lie;
        } else if (word == "--error") {
            const std::string name = next();
            if (!errors.contains(name)) {
                complain("--error does not know " + name);
            }
            order.fault = Fault::error;
            order.error = errors.at(name);
            order.at = ::atol(next().c_str());
        } else if (faults.contains(word)) {
            order.fault = faults.at(word);
            order.at = ::atol(next().c_str());
        } else {
            complain("no such flag: " + std::string(word));
        }
    }
    order.program.assign(words + std::min(at + 1, count), words + count);
    if (order.program.empty() || order.report.empty()) {
        complain("--report FILE and -- PROGRAM are needed");
    }
    order.program.push_back(nullptr);
    return order;
}

// Only the calls of the table stop the program: everything else runs at full speed.
void stop_at_calls() {
    std::vector<sock_filter> filter{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    for (const Call& call : calls) {
        filter.push_back(
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call.number), 0, 1));
        filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE));
    }
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        ::_exit(124);
    }
}

pid_t launch(const Order& order) {
    int go[2];
    if (::pipe2(go, O_CLOEXEC) != 0) {
        complain("no pipe");
    }
    const pid_t child = ::fork();
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        char word = 0;
        if (::read(go[0], &word, 1) != 1) {
            ::_exit(124);
        }
        stop_at_calls();
        ::execv(order.program[0], order.program.data());
        ::_exit(127);
    }
    constexpr long options =
        PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    if (::ptrace(PTRACE_SEIZE, child, nullptr, options) != 0) {
        complain(std::string("the kernel does not let it trace: ") + ::strerror(errno));
    }
    if (::write(go[1], "!", 1) != 1) {
        complain("the program did not start");
    }
    ::close(go[0]);
    ::close(go[1]);
    return child;
}

std::string link_target(const std::string& link) {
    std::array<char, PATH_MAX> target;
    const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
    return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : "";
}

std::string text_at(pid_t thread, std::uint64_t address) {
    std::array<char, PATH_MAX> text{};
    iovec here{text.data(), text.size() - 1};
    // Up to the end of the page the text begins in, and the next one if that can be read.
    constexpr std::uint64_t page = 4096;
    iovec there[2] = {
        {reinterpret_cast<void*>(address), page - address % page},
        {reinterpret_cast<void*>(address + page - address % page), page}};
    if (::process_vm_readv(thread, &here, 1, there, 2, 0) <= 0) {
        return "";
    }
    return text.data();
}

class Interference {
public:
    explicit Interference(const Order& order) : order_(order) {}

    // At the door of a call. True when the program is to be stopped again when it is done.
    bool at_entry(pid_t thread) {
        __ptrace_syscall_info info{};
        if (::ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(info), &info) <= 0) {
            return false;
        }
        const Call* const call = call_of(static_cast<long>(info.seccomp.nr));
        if (call == nullptr || !counts(thread, *call, info.seccomp.args)) {
            return false;
        }
        ++calls_;
        if (order_.fault == Fault::lie && is_sync(call->number)) {
            answer(thread, 0);
            return false;
        }
        const bool again = order_.ever && hit_ != nullptr && hit_ == call && healed == 0;
        if (calls_ != order_.at && !again) {
            return false;
        }
        if (hit_ == nullptr) {
            hit_ = call;
            tell("hit " + std::to_string(calls_) + " " + call->name + " " + path_);
        }
        return interfere(thread, *call);
    }

    void at_exit() const { kill_program(); }

    void finish() const { tell("calls " + std::to_string(calls_)); }

private:
    bool counts(pid_t thread, const Call& call, const std::uint64_t* arguments) {
        if (call.names == Names::socket) {
            path_ = "socket";
            return order_.fault == Fault::none || order_.fault == Fault::kill;
        }
        path_ = path_of(thread, call, arguments);
        return order_.under.empty() || path_.starts_with(order_.under);
    }

    static std::string path_of(pid_t thread, const Call& call, const std::uint64_t* arguments) {
        const std::string root = "/proc/" + std::to_string(thread);
        const auto descriptor = [&root](std::uint64_t number) {
            return link_target(root + "/fd/" + std::to_string(static_cast<int>(number)));
        };
        if (call.names == Names::descriptor) {
            return descriptor(arguments[0]);
        }
        if (call.names == Names::path) {
            return text_at(thread, arguments[0]);
        }
        const bool link = call.names == Names::link_at;
        const std::uint64_t directory = arguments[link ? 1 : 0];
        const std::string name = text_at(thread, arguments[link ? 2 : 1]);
        if (name.starts_with('/')) {
            return name;
        }
        const bool here = static_cast<int>(directory) == AT_FDCWD;
        return (here ? link_target(root + "/cwd") : descriptor(directory)) + "/" + name;
    }

    bool interfere(pid_t thread, const Call& call) const {
        const bool writes = call.number == SYS_pwrite64 || call.number == SYS_write;
        switch (order_.fault) {
        case Fault::none:
        case Fault::lie:
            return false;
        case Fault::kill:
            kill_program();
            return false;
        case Fault::tear:
            if (!writes) {
                kill_program();
                return false;
            }
            halve(thread);
            return true;
        case Fault::shorten:
            if (writes) {
                halve(thread);
            }
            return false;
        case Fault::error:
            answer(thread, -order_.error);
            return false;
        }
        return false;
    }

#if defined(__x86_64__)
    static void halve(pid_t thread) {
        user_regs_struct registers{};
        ::ptrace(PTRACE_GETREGS, thread, nullptr, &registers);
        registers.rdx = (registers.rdx + 1) / 2;
        ::ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
    }

    // A call without a number is not made, and answers with what stands in its register.
    static void answer(pid_t thread, long value) {
        user_regs_struct registers{};
        ::ptrace(PTRACE_GETREGS, thread, nullptr, &registers);
        registers.orig_rax = static_cast<unsigned long long>(-1);
        registers.rax = static_cast<unsigned long long>(value);
        ::ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
    }
#else
    static void halve(pid_t) {
        complain("torn and short writes are made on x86-64 only");
    }
    void refuse(pid_t) const {
        complain("errors are made on x86-64 only");
    }
#endif

    static void kill_program() {
        ::kill(program_pid, SIGKILL);
    }

    void tell(const std::string& line) const {
        const int file = ::open(order_.report.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        const std::string text = line + "\n";
        if (::write(file, text.data(), text.size()) < 0) {
            complain("cannot write to " + order_.report);
        }
        ::close(file);
    }

    const Order& order_;
    long calls_ = 0;
    const Call* hit_ = nullptr;
    std::string path_;  // of the call looked at
};

int follow(Interference& interference) {
    while (true) {
        int status = 0;
        const pid_t thread = ::waitpid(-1, &status, __WALL);
        if (thread < 0) {
            if (errno == EINTR) {
                continue;
            }
            return 125;
        }
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (thread == program_pid) {
                return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            }
            continue;
        }
        const int event = status >> 16;
        const int stop = WSTOPSIG(status);
        if (event == PTRACE_EVENT_SECCOMP) {
            const bool again = interference.at_entry(thread);
            ::ptrace(again ? PTRACE_SYSCALL : PTRACE_CONT, thread, nullptr, nullptr);
        } else if (stop == (SIGTRAP | 0x80)) {
            interference.at_exit();
            ::ptrace(PTRACE_CONT, thread, nullptr, nullptr);
        } else {
            // Births of threads are only noticed; signals go where they were sent.
            ::ptrace(PTRACE_CONT, thread, nullptr, event != 0 ? 0L : static_cast<long>(stop));
        }
    }
}

}  // namespace

int main(int argument_count, char** arguments) {
    const Order order = parse(argument_count, arguments);
    struct sigaction action {};
    action.sa_handler = pass_on;
    ::sigaction(SIGTERM, &action, nullptr);
    ::sigaction(SIGINT, &action, nullptr);
    action.sa_handler = heal;
    ::sigaction(SIGUSR1, &action, nullptr);
    program_pid = launch(order);
    Interference interference(order);
    const int status = follow(interference);
    interference.finish();
    return status;
}
