// SPDX-License-Identifier: Apache-2.0
#include "cli/client.hpp"
#include "cli/command_line.hpp"
#include "cli/emit_fields.hpp"
#include "cli/terminal_text.hpp"

#include <nlohmann/json.hpp>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <system_error>

namespace relay::cli {

const std::string_view emit_help = R"(agent-relay emit: push one event from a shell script

usage: agent-relay emit <type> [key=value | key:=json | key=@file]... [flags]
       agent-relay emit [<type>] -      the event as one JSON object on standard input

examples:
  export AGENT_RELAY_SESSION=$(agent-relay emit session.start agent=my-script --pid $$ | jq -r .session)
  agent-relay emit turn.start prompt="fix the tests"
  make test 2>&1 | agent-relay emit turn.output text=@-
  agent-relay emit turn.note kind=decision payload:='{"summary":"keep the old parser","why":"users rely on it"}'
  agent-relay emit turn.end status=completed tokens:='{"input":1200,"output":80}'
  agent-relay emit session.attachment name=trace.bin data=@trace.bin
  agent-relay emit session.end exit_code:=0
  echo '{"type":"session.update","flagged":true}' | agent-relay emit

fields:
  key=value      a string                 key=@file    the text of a file; @- is standard input
  key:=json      any JSON                 key:=@file   JSON from a file
  data=@file     the file's bytes, encoded as the protocol wants them
  Text that begins with '@' is written key:='"@text"'.

session is $AGENT_RELAY_SESSION unless given. session.start gets this directory as cwd and "custom" as agent. The
session belongs to the process that called emit, or to --pid: when that one is gone, or nothing was sent for
daemon.orphan_grace (30 s), the session is checkpointed, and --reopen goes on with it. Inside
$(...) the caller is a shell that lives no longer than the brackets, so name the script with --pid $$ there. Events
that only the owner may send are preceded by session.attach.

flags:
  --pid PID        the process that owns the session
  --no-attach      do not attach first
  --reopen         attach to a session that has ended, too
  --json-fields    take every key=value as JSON

Prints the daemon's answer. exit status: 0 recorded, 1 refused, 2 wrong usage, 3 no such session, 4 daemon unreachable
)";

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using std::chrono::milliseconds;

constexpr milliseconds connect_timeout{5'000};
constexpr milliseconds answer_timeout{60'000};  // a slow disk under load, not a dead daemon
constexpr std::size_t input_bytes_max = 64 << 20;

struct EmitFlags {
    bool attach = true;
    bool reopen = false;
    bool read_stdin = false;
    PlainValues plain = PlainValues::strings;
    std::int64_t pid = 0;  // 0: the process that called us
    std::string type;
    std::vector<std::string> fields;
};

Result<std::int64_t> parse_pid(std::string_view text) {
    std::int64_t pid = 0;
    const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), pid);
    if (failure != std::errc{} || rest != text.data() + text.size() || pid < 1) {
        return Error{
            Errc::invalid,
            0,
            "--pid needs the number of a process, got \"" + std::string(text) + "\""};
    }
    return pid;
}

Result<std::string> read_all(int fd, const std::string& name) {
    std::string content;
    std::array<char, 65536> buffer{};
    while (content.size() <= input_bytes_max) {
        const ssize_t got = ::read(fd, buffer.data(), buffer.size());
        if (got == 0) {
            return content;
        }
        if (got < 0 && errno != EINTR) {
            return Error{
                Errc::io, errno, "read " + name + ": " + std::system_category().message(errno)};
        }
        content.append(buffer.data(), static_cast<std::size_t>(got < 0 ? 0 : got));
    }
    return Error{Errc::invalid, 0, name + " is longer than 64 MiB"};
}

Result<std::string> read_named(const std::string& path) {
    if (path == "-") {
        return read_all(STDIN_FILENO, "standard input");
    }
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return Error{
            Errc::io, errno, "read \"" + path + "\": " + std::system_category().message(errno)};
    }
    Result<std::string> content = read_all(fd, "\"" + path + "\"");
    ::close(fd);
    return content;
}

// The flag at `at`, which is moved to the last argument it used.
layout::Status
take_flag(const std::vector<std::string>& arguments, std::size_t& at, EmitFlags& flags) {
    const std::string& argument = arguments[at];
    if (argument == "-") {
        flags.read_stdin = true;
    } else if (argument == "--no-attach") {
        flags.attach = false;
    } else if (argument == "--reopen") {
        flags.reopen = true;
    } else if (argument == "--json-fields") {
        flags.plain = PlainValues::json;
    } else if (argument == "--pid" || argument.starts_with("--pid=")) {
        std::string text = argument.substr(std::min<std::size_t>(argument.size(), 6));
        if (argument == "--pid" && at + 1 < arguments.size()) {
            text = arguments[++at];
        }
        const Result<std::int64_t> pid = parse_pid(text);
        if (!pid.ok()) {
            return pid.error();
        }
        flags.pid = pid.value();
    } else {
        return Error{Errc::invalid, 0, "unknown flag \"" + argument + "\""};
    }
    return layout::Done{};
}

// Flags may stand anywhere before "--"; the first word that is no field is the type.
Result<EmitFlags> parse_flags(const std::vector<std::string>& arguments) {
    EmitFlags flags;
    bool only_words = false;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        const std::string& argument = arguments[at];
        if (!only_words && argument == "--") {
            only_words = true;
        } else if (!only_words && argument.starts_with('-')) {
            const layout::Status taken = take_flag(arguments, at, flags);
            if (!taken.ok()) {
                return taken.error();
            }
        } else if (argument.find('=') != std::string::npos) {
            flags.fields.push_back(argument);
        } else if (flags.type.empty()) {
            flags.type = argument;
        } else {
            return Error{Errc::invalid, 0, "\"" + argument + "\" is no field; write key=value"};
        }
    }
    return flags;
}

// The event as the arguments and standard input give it.
Result<Fields> gather(const EmitFlags& flags) {
    Fields event = Fields::object();
    if (!flags.type.empty()) {
        event["type"] = flags.type;
    }
    if (flags.read_stdin || (flags.fields.empty() && ::isatty(STDIN_FILENO) != 1)) {
        const Result<std::string> text = read_all(STDIN_FILENO, "standard input");
        if (!text.ok()) {
            return text.error();
        }
        const Result<Fields> input = parse_object(text.value());
        if (!input.ok()) {
            return input.error();
        }
        event.update(input.value());
        if (!flags.type.empty() && event.at("type") != flags.type) {
            return Error{
                Errc::invalid,
                0,
                "the type is \"" + flags.type + "\" on the command line and "
                    + event.at("type").dump() + " in the input"};
        }
    }
    for (const std::string& field : flags.fields) {
        const layout::Status added = add_field(event, field, flags.plain, read_named);
        if (!added.ok()) {
            return added.error();
        }
    }
    return event;
}

Result<Caller> find_caller(std::int64_t pid, const Surroundings& surroundings) {
    std::array<char, 4096> here{};
    if (::getcwd(here.data(), here.size()) == nullptr) {
        return Error{
            Errc::io,
            errno,
            "find the current directory: " + std::system_category().message(errno)};
    }
    return Caller{
        here.data(), pid == 0 ? ::getppid() : pid, surroundings.environment("AGENT_RELAY_SESSION")};
}

Result<std::string> ask(Client& client, const Fields& request) {
    const Result<std::string> line = to_line(request);
    if (!line.ok()) {
        return line.error();
    }
    return client.ask(line.value(), request.at("id").dump(), answer_timeout);
}

// The answer that decides: the attach's when it was refused, else the event's.
Result<std::string>
deliver(Client& client, const Fields& event, const Fields& attach, bool attach_first) {
    if (attach_first) {
        Result<std::string> attached = ask(client, attach);
        if (!attached.ok() || exit_code_of(attached.value()) != ExitCode::ok) {
            return attached;
        }
    }
    return ask(client, event);
}

ExitCode send_event(
    const CommandLine& line,
    const EmitFlags& flags,
    const Fields& event,
    const Caller& caller,
    const Surroundings& surroundings) {
    const Result<std::string> socket = find_socket(line, surroundings);
    if (!socket.ok()) {
        return complain(surroundings, ExitCode::usage, socket.error().context);
    }
    Result<Client> client = Client::connect(socket.value(), connect_timeout);
    if (!client.ok()) {
        return complain(
            surroundings,
            ExitCode::daemon_unreachable,
            unreachable(socket.value(), client.error()));
    }
    const bool attach_first = flags.attach && needs_ownership(event);
    const Fields attach =
        attach_first ? attach_request(event, caller, flags.reopen) : Fields::object();
    const Result<std::string> answer = deliver(client.value(), event, attach, attach_first);
    if (!answer.ok()) {
        return complain(
            surroundings,
            ExitCode::daemon_unreachable,
            "no answer from agent-relayd, so the event may or may not be recorded: "
                + answer.error().context);
    }
    surroundings.out
        << (surroundings.out_is_terminal ? harmless_json(answer.value()) : answer.value()) << '\n';
    return exit_code_of(answer.value());
}

}  // namespace

ExitCode emit_command(const CommandLine& line, const Surroundings& surroundings) {
    const Result<EmitFlags> flags = parse_flags(line.arguments);
    if (!flags.ok()) {
        return complain_usage(surroundings, "emit", flags.error().context);
    }
    if (flags.value().type.empty() && flags.value().fields.empty() && !flags.value().read_stdin
        && ::isatty(STDIN_FILENO) == 1) {
        return complain_usage(surroundings, "emit", "emit needs a type, such as turn.note");
    }
    Result<Fields> event = gather(flags.value());
    if (!event.ok()) {
        return complain_usage(surroundings, "emit", event.error().context);
    }
    const Result<Caller> caller = find_caller(flags.value().pid, surroundings);
    if (!caller.ok()) {
        return complain(surroundings, ExitCode::failed, caller.error().context);
    }
    const layout::Status complete = add_defaults(event.value(), caller.value());
    if (!complete.ok()) {
        return complain_usage(surroundings, "emit", complete.error().context);
    }
    if (flags.value().reopen && event.value().at("type") == "session.attach") {
        event.value()["reopen"] = true;
    }
    const Result<std::string> sendable = to_line(event.value());
    if (!sendable.ok()) {
        return complain_usage(surroundings, "emit", sendable.error().context);
    }
    return send_event(line, flags.value(), event.value(), caller.value(), surroundings);
}

}  // namespace relay::cli
