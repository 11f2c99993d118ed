// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/relay_home.hpp"
#include "tests/support/eventually.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

namespace relay::tests {
namespace {

// A person in front of a terminal of 30 lines and 100 columns, in which one line of shell runs.
class Person {
public:
    Person(const RelayHome& home, const std::string& line) {
        std::vector<std::string> variables;
        for (const auto& [name, value] : home.environment()) {
            variables.push_back(name + "=" + value);
        }
        std::vector<char*> pointers;
        for (std::string& variable : variables) {
            pointers.push_back(variable.data());
        }
        pointers.push_back(nullptr);
        std::string command = "cd '" + home.work() + "' || exit 99; " + line;
        std::string shell = "bash";
        std::string flag = "-c";
        const std::array<char*, 4> words{shell.data(), flag.data(), command.data(), nullptr};
        winsize window{30, 100, 0, 0};
        pid_ = ::forkpty(&master_, nullptr, nullptr, &window);
        if (pid_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::execve("/bin/bash", words.data(), pointers.data());
            ::_exit(127);
        }
    }
    Person(const Person&) = delete;
    Person& operator=(const Person&) = delete;
    ~Person() {
        ::close(master_);
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
    }

    void type(const std::string& keys) const {
        REQUIRE(::write(master_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
    }
    void resize(unsigned short rows, unsigned short columns) const {
        const winsize window{rows, columns, 0, 0};
        REQUIRE(::ioctl(master_, TIOCSWINSZ, &window) == 0);
    }
    void hang_up() {
        ::close(master_);
        master_ = -1;
    }
    // True once these words have been seen.
    bool sees(const std::string& words) {
        while (seen_.find(words) == std::string::npos) {
            if (!look()) {
                return false;
            }
        }
        return true;
    }
    // Everything until the program ends; its exit status.
    int wait() {
        while (look()) {
        }
        int status = 0;
        ::waitpid(pid_, &status, 0);
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    [[nodiscard]] const std::string& seen() const { return seen_; }
    [[nodiscard]] bool is_canonical() const {
        termios settings{};
        return ::tcgetattr(master_, &settings) == 0 && (settings.c_lflag & ICANON) != 0;
    }

private:
    bool look() {
        pollfd wait{master_, POLLIN, 0};
        std::array<char, 4096> buffer{};
        if (::poll(&wait, 1, 20'000) != 1) {
            return false;
        }
        const ssize_t got = ::read(master_, buffer.data(), buffer.size());
        if (got <= 0) {
            return false;
        }
        seen_.append(buffer.data(), static_cast<std::size_t>(got));
        return true;
    }

    int master_ = -1;
    pid_t pid_ = 0;
    std::string seen_;
};

// Of the only session; empty as long as there is none.
std::string reason_of(const RelayHome& home) {
    if (home.sessions().size() != 1) {
        return "";
    }
    const Json meta = home.session().meta();
    const bool told = meta.is_object() && meta["checkpoint_reason"].is_string();
    return told ? meta["checkpoint_reason"].get<std::string>() : "";
}

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

TEST_CASE("at a terminal the agent has a terminal with its size and its keys") {
    const RelayHome home;
    Person person(
        home,
        "agent-relay run -- bash -c '[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo terminal; stty size; "
        "trap \"stty size; exit 4\" WINCH; read -r word; echo \"heard $word\"; echo ready; "
        "while true; do sleep 0.01; done'; echo \"status $?\"");
    REQUIRE(person.sees("30 100"));
    CHECK(says(person.seen(), "terminal\r\n"));
    person.type("hello\r");
    REQUIRE(person.sees("ready"));
    CHECK(says(person.seen(), "heard hello"));
    person.resize(40, 90);
    REQUIRE(person.sees("status"));
    CHECK(person.wait() == 0);
    CHECK(says(person.seen(), "40 90\r\nstatus 4\r\n"));
    const Recording session = home.session();
    CHECK(
        session.text("turns/001-output.md")
        == "terminal\n30 100\nhello\nheard hello\nready\n40 90\n");
    CHECK(session.meta()["exit_code"] == 4);
}

TEST_CASE("the terminal is as before when the agent has ended") {
    const RelayHome home;
    Person person(home, "stty -a > before; agent-relay run -- true; stty -a > after; echo over");
    REQUIRE(person.sees("over"));
    CHECK(person.wait() == 0);
    CHECK(read_text(home.work() + "/after") == read_text(home.work() + "/before"));
    CHECK(says(read_text(home.work() + "/after"), "icanon"));
}

TEST_CASE("Ctrl-C reaches the agent first and leaves a checkpoint") {
    const RelayHome home;
    Person person(
        home,
        "agent-relay run -- bash -c 'trap \"echo caught; exit 0\" INT; echo ready; "
        "while true; do sleep 0.01; done'; echo \"status $?\"");
    REQUIRE(person.sees("ready"));
    person.type("\x03");
    REQUIRE(person.sees("status"));
    CHECK(person.wait() == 0);
    CHECK(says(person.seen(), "caught\r\nstatus 0"));
    const Json meta = home.session().meta();
    CHECK(meta["status"] == "checkpointed");
    CHECK(meta["checkpoint_reason"] == "manual");
    CHECK(home.session().json("turns/001-state.json")["status"] == "interrupted");
}

TEST_CASE("Ctrl-C ends an agent that does not care and tells so by its status") {
    const RelayHome home;
    Person person(home, "agent-relay run -- sh -c 'echo ready; exec sleep 30'; echo \"status $?\"");
    REQUIRE(person.sees("ready"));
    person.type("\x03");
    REQUIRE(person.sees("status 130"));
    CHECK(person.wait() == 0);
    CHECK(home.session().meta()["checkpoint_reason"] == "manual");
}

TEST_CASE("Ctrl-C that the agent reads as a key means nothing to us") {
    const RelayHome home;
    Person person(
        home,
        "agent-relay run -- bash -c 'stty raw -echo; echo ready; head -c 1 | od -An -tx1; stty "
        "sane'; "
        "echo \"status $?\"");
    REQUIRE(person.sees("ready"));
    person.type("\x03");
    REQUIRE(person.sees("status 0"));
    CHECK(says(person.seen(), " 03"));
    CHECK(person.wait() == 0);
    CHECK(home.session().meta()["status"] == "completed");
}

TEST_CASE("Ctrl-C with the output in a pipe ends both and leaves a checkpoint") {
    const RelayHome home;
    Person person(
        home,
        "agent-relay run -- sh -c 'echo ready; exec sleep 30' | cat; echo \"status "
        "${PIPESTATUS[0]}\"");
    REQUIRE(person.sees("ready"));
    person.type("\x03");
    static_cast<void>(person.wait());
    CHECK(eventually([&home] { return reason_of(home) == "manual"; }));
}

TEST_CASE("Ctrl-Z stops agent and run and both go on") {
    const RelayHome home;
    Person person(
        home,
        "set -m; agent-relay run -- bash -c 'echo ready; read -r word; echo \"heard $word\"'; "
        "echo stopped; fg > /dev/null; echo \"status $?\"");
    REQUIRE(person.sees("ready"));
    person.type("\x1a");
    REQUIRE(person.sees("stopped"));
    person.type("hello\r");
    REQUIRE(person.sees("status 0"));
    CHECK(says(person.seen(), "heard hello"));
    CHECK(person.wait() == 0);
}

TEST_CASE("an agent that stops itself gives the terminal back and goes on with its job") {
    const RelayHome home;
    Person person(
        home,
        "set -m; agent-relay run -- bash -c 'echo ready; kill -STOP $$; echo again; read -r word; "
        "echo \"heard $word\"'; echo \"stopped $?\"; fg > /dev/null; echo \"status $?\"");
    REQUIRE(person.sees("stopped 148"));
    REQUIRE(person.sees("again"));
    person.type("hello\r");
    REQUIRE(person.sees("status 0"));
    CHECK(says(person.seen(), "heard hello"));
    CHECK(person.wait() == 0);
    CHECK(home.session().meta()["status"] == "completed");
}

TEST_CASE("Ctrl-Z where no shell could continue anybody stops nobody") {
    const RelayHome home;
    Person person(
        home,
        "exec agent-relay run -- bash -c 'echo ready; read -r word; echo \"heard $word\"; exit 6'");
    REQUIRE(person.sees("ready"));
    person.type("\x1a");
    person.type("hello\r");
    REQUIRE(person.sees("heard hello"));
    CHECK(person.wait() == 6);
}

TEST_CASE("a terminal that hangs up reaches the agent and leaves a checkpoint") {
    const RelayHome home;
    Person person(
        home,
        "exec agent-relay run -- bash -c 'trap \"echo hung up > trapped; exit 0\" HUP; echo ready; "
        "while true; do sleep 0.01; done'");
    REQUIRE(person.sees("ready"));
    person.hang_up();
    CHECK(eventually([&home] { return exists(home.work() + "/trapped"); }));
    CHECK(eventually([&home] { return reason_of(home) == "manual"; }));
}

TEST_CASE("a program on the whole screen draws for the user and leaves text alone") {
    const RelayHome home;
    Person person(
        home,
        "agent-relay run -- bash -c 'printf \"\\033[?1049h\\033[2J\\033[5;5Hmenu\"; read -rsn1; "
        "printf \"\\033[?1049l\"; echo chosen'; echo \"status $?\"");
    REQUIRE(person.sees("menu"));
    person.type("x");
    REQUIRE(person.sees("status 0"));
    CHECK(says(person.seen(), "\033[?1049h\033[2J\033[5;5Hmenu\033[?1049lchosen\r\n"));
    CHECK(person.wait() == 0);
    CHECK(home.session().text("turns/001-output.md") == "chosen\n");
}

TEST_CASE("input from a pipe at a terminal reaches the agent and so does Ctrl-C") {
    const RelayHome home;
    Person person(
        home,
        "echo piped | agent-relay run -- bash -c '{ [ ! -t 0 ] && [ -t 1 ]; } || echo wrong; cat; "
        "echo "
        "ready; "
        "sleep 30'; echo \"status $?\"");
    REQUIRE(person.sees("ready"));
    CHECK(says(person.seen(), "piped\r\n"));
    person.type("\x03");
    static_cast<void>(person.wait());
    CHECK(eventually([&home] { return reason_of(home) == "manual"; }));
    CHECK(home.session().text("turns/001-output.md") == "piped\nready\n");
}

TEST_CASE("errors to a terminal stay a terminal's when the output goes elsewhere") {
    const RelayHome home;
    Person person(
        home,
        "agent-relay run -- bash -c '[ -t 2 ] && [ ! -t 1 ] && echo terminal >&2; echo data' > "
        "out; "
        "echo \"status $?\"");
    REQUIRE(person.sees("status 0"));
    CHECK(says(person.seen(), "terminal\r\n"));
    CHECK(person.wait() == 0);
    CHECK(read_text(home.work() + "/out") == "data\n");
    CHECK(home.session().text("turns/001-stderr.log") == "terminal\n");
    CHECK(home.session().text("turns/001-output.md") == "data\n");
}

}  // namespace
}  // namespace relay::tests
