// SPDX-License-Identifier: Apache-2.0
#include "cli/handoff_request.hpp"

#include "cli/descriptor.hpp"
#include "layout/session_reader.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <system_error>

namespace relay::cli {

namespace {

using layout::Done;
using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;

constexpr std::int64_t reason_bytes_max = 1024;

std::string directory_of(const std::string& state_directory) {
    return state_directory + "/handoff";
}

Error failure(const std::string& what) {
    return Error{Errc::io, errno, what + ": " + std::system_category().message(errno)};
}

}  // namespace

Status request_handoff(
    const std::string& state_directory, const std::string& session, const std::string& reason) {
    const std::string directory = directory_of(state_directory);
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
        return failure("create directory " + directory);
    }
    const std::string hidden = directory + "/." + session + ".tmp";
    const std::string path = directory + "/" + session;
    const Descriptor file(
        ::open(hidden.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()
        || ::write(file.get(), reason.data(), reason.size()) != static_cast<ssize_t>(reason.size())
        || ::rename(hidden.c_str(), path.c_str()) != 0) {
        return failure("write " + path);
    }
    return Done{};
}

std::optional<std::string>
take_handoff_request(const std::string& state_directory, const std::string& session) {
    const std::string path = directory_of(state_directory) + "/" + session;
    const Result<std::string> reason = layout::read_file(path, reason_bytes_max);
    if (!reason.ok()) {
        return std::nullopt;
    }
    // Nobody asks again with this number.
    static_cast<void>(::unlink(path.c_str()));
    return reason.value().empty() ? "handoff" : reason.value();
}

}  // namespace relay::cli
