// SPDX-License-Identifier: Apache-2.0
#include "layout/store.hpp"

#include "layout/git_work_tree.hpp"

#include <boost/filesystem/path.hpp>

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

namespace relay::layout {

namespace {

using boost::filesystem::path;

constexpr const char* store_name = ".agent-relay";

std::string reason_of(int os_errno) {
    return std::generic_category().message(os_errno);
}

Error invalid(std::string context) {
    return {.code = Errc::invalid, .context = std::move(context)};
}

// Without "//", "/./", ".." and a slash at the end.
std::string tidy(std::string_view absolute) {
    // Boost takes "//x" for the name of a network host.
    while (absolute.starts_with("//")) {
        absolute.remove_prefix(1);
    }
    path normal = path{std::string{absolute}}.lexically_normal();
    if (normal.filename() == ".") {
        normal = normal.parent_path();
    }
    return normal.string();
}

// A set and non-empty variable.
std::optional<std::string> value_of(const Environment& environment, const char* name) {
    std::optional<std::string> value = environment(name);
    if (value && value->empty()) {
        return std::nullopt;
    }
    return value;
}

// XDG: "relative paths are invalid and ignored"; we hold HOME to the same.
std::optional<std::string> absolute_value_of(const Environment& environment, const char* name) {
    std::optional<std::string> value = value_of(environment, name);
    if (!value || value->front() != '/') {
        return std::nullopt;
    }
    return tidy(*value);
}

// Our own variables are taken at their word: a relative one is refused instead of ignored, because
// the caller who set it would look for the record there.
Result<std::optional<std::string>> own_value_of(const Environment& environment, const char* name) {
    const std::optional<std::string> value = value_of(environment, name);
    if (!value) {
        return std::optional<std::string>{};
    }
    if (value->front() != '/') {
        return invalid(std::string{name} + " must be an absolute path, not \"" + *value + "\"");
    }
    return std::optional<std::string>{tidy(*value)};
}

std::string below_directory(const std::string& directory, const std::string& rest) {
    return directory == "/" ? "/" + rest : directory + "/" + rest;
}

Result<std::string> base_directory(
    const Environment& environment,
    const std::string& home,
    const char* variable,
    const char* below_home) {
    if (const auto base = absolute_value_of(environment, variable)) {
        return below_directory(*base, "agent-relay");
    }
    if (home.empty()) {
        return invalid(
            std::string{"HOME is not set to an absolute path, and neither is "} + variable);
    }
    return below_directory(home, std::string{below_home} + "/agent-relay");
}

Result<std::string> canonical_directory(std::string_view directory) {
    const std::string text{directory};
    if (!text.starts_with('/') || text.find('\0') != std::string::npos) {
        return invalid("cwd is not an absolute path: \"" + text + "\"");
    }
    struct Release {
        void operator()(char* memory) const { std::free(memory); }
    };
    const std::unique_ptr<char, Release> real{::realpath(text.c_str(), nullptr)};
    struct stat status {};
    if (!real || ::stat(real.get(), &status) != 0) {
        const int failure = errno;
        const bool wrong =
            failure == ENOENT || failure == ENOTDIR || failure == ELOOP || failure == ENAMETOOLONG;
        return Error{
            wrong ? Errc::invalid : Errc::io, failure, "cwd " + text + ": " + reason_of(failure)};
    }
    if (!S_ISDIR(status.st_mode)) {
        return invalid("cwd is no directory: " + text);
    }
    return std::string{real.get()};
}

bool exists(const std::string& name) {
    struct stat status {};
    return ::lstat(name.c_str(), &status) == 0;
}

bool is_directory(const path& name) {
    struct stat status {};
    return ::stat(name.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool is_at_or_above(const std::string& upper, const std::string& lower) {
    return upper == "/" || lower == upper || lower.starts_with(upper + "/");
}

// `/`, the directory that homes stand in, and what is above it belong to everybody; what somebody put
// there must not draw everyone's sessions.
class RootLimit {
public:
    explicit RootLimit(const std::string& home) {
        if (home.empty()) {
            return;
        }
        const Result<std::string> canonical = canonical_directory(home);
        const path parent = path{canonical.ok() ? canonical.value() : home}.parent_path();
        homes_ = parent.empty() ? "/" : parent.string();
    }
    [[nodiscard]] bool allows(const std::string& directory) const {
        return !is_at_or_above(directory, homes_);
    }

private:
    std::string homes_ = "/";
};

struct Surroundings {
    std::optional<std::string> nearest;  // the directory that has .agent-relay or .git
    std::optional<GitWorkTree> git;      // the nearest git work tree
};

Surroundings look_around(const std::string& cwd, const RootLimit& limit) {
    Surroundings found;
    for (path at{cwd}; limit.allows(at.string()) && !found.git; at = at.parent_path()) {
        const std::string& directory = at.string();
        found.git = read_git_work_tree(directory);
        const bool holds_store = exists(directory + "/" + store_name);
        if (!found.nearest && (found.git || holds_store)) {
            found.nearest = directory;
        }
    }
    return found;
}

Status check_owned_directory(const std::string& name) {
    struct stat status {};
    if (::lstat(name.c_str(), &status) != 0) {
        const int failure = errno;
        if (failure == ENOENT) {
            return Done{};
        }
        return Error{Errc::io, failure, "look at " + name + ": " + reason_of(failure)};
    }
    const char* fault = nullptr;
    if (S_ISLNK(status.st_mode)) {
        fault = " is a symbolic link";
    } else if (!S_ISDIR(status.st_mode)) {
        fault = " is no directory";
    } else if (status.st_uid != ::geteuid()) {
        fault = " belongs to another user";
    }
    if (fault != nullptr) {
        return Error{.code = Errc::unsafe, .context = name + fault + "; nothing is recorded there"};
    }
    return Done{};
}

Status check_store(const Store& store) {
    if (Status root = check_owned_directory(store.root()); !root.ok()) {
        return root;
    }
    return check_owned_directory(store.sessions());
}

// `git worktree remove` deletes what lies in a linked worktree, so the main one keeps the record.
std::string repo_anchor(const Surroundings& around, const RootLimit& limit) {
    if (around.git && around.git->main_root != around.git->root
        && limit.allows(around.git->main_root)) {
        return around.git->main_root;
    }
    return *around.nearest;
}

}  // namespace

Environment process_environment() {
    return [](const char* name) -> std::optional<std::string> {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in this program calls setenv
        const char* const value = std::getenv(name);
        if (value == nullptr) {
            return std::nullopt;
        }
        return std::string{value};
    };
}

Result<UserDirectories> user_directories(const Environment& environment) {
    UserDirectories user;
    user.home = absolute_value_of(environment, "HOME").value_or("");

    const auto relocated = own_value_of(environment, "AGENT_RELAY_HOME");
    if (!relocated.ok()) {
        return relocated.error();
    }
    if (const std::optional<std::string>& base = relocated.value()) {
        user.state = below_directory(*base, "state");
        user.cache = below_directory(*base, "cache");
        user.config = below_directory(*base, "config");
        user.relocated = true;
        return user;
    }

    struct Role {
        std::string& directory;
        const char* variable;
        const char* below_home;
    };
    for (const Role& role : {
             Role{user.state, "XDG_STATE_HOME", ".local/state"},
             Role{user.cache, "XDG_CACHE_HOME", ".cache"},
             Role{user.config, "XDG_CONFIG_HOME", ".config"},
         }) {
        const auto base = base_directory(environment, user.home, role.variable, role.below_home);
        if (!base.ok()) {
            return base.error();
        }
        role.directory = base.value();
    }
    return user;
}

Result<std::string> socket_path(const Environment& environment) {
    const auto socket = own_value_of(environment, "AGENT_RELAY_SOCKET");
    if (!socket.ok()) {
        return socket.error();
    }
    if (socket.value()) {
        return *socket.value();
    }
    if (const auto runtime = absolute_value_of(environment, "XDG_RUNTIME_DIR")) {
        return below_directory(*runtime, "agent-relay/relay.sock");
    }
    const auto relocated = own_value_of(environment, "AGENT_RELAY_HOME");
    if (!relocated.ok()) {
        return relocated.error();
    }
    if (relocated.value()) {
        return below_directory(*relocated.value(), "state/relay.sock");
    }
    if (const auto home = absolute_value_of(environment, "HOME")) {
        return below_directory(*home, ".local/state/agent-relay/relay.sock");
    }
    return invalid("no place for the socket: neither AGENT_RELAY_SOCKET nor XDG_RUNTIME_DIR nor "
                   "AGENT_RELAY_HOME nor HOME is set to an absolute path");
}

Result<Placement>
place_session(std::string_view cwd, StorePreference preference, const UserDirectories& user) {
    const Result<std::string> canonical = canonical_directory(cwd);
    if (!canonical.ok()) {
        return canonical.error();
    }
    const RootLimit limit{user.home};
    const Surroundings around = look_around(canonical.value(), limit);

    Placement placement;
    placement.cwd = canonical.value();
    if (around.git) {
        placement.repo = Repo{around.git->root, around.git->branch, around.git->head};
        if (around.git->main_root != around.git->root) {
            placement.worktree = around.git->root;
        }
    }
    const bool to_user = user.relocated || preference == StorePreference::user;
    if (!to_user && around.nearest) {
        placement.store = {repo_anchor(around, limit), store_name, /*is_repo=*/true};
    } else if (!to_user && preference == StorePreference::repo) {
        return invalid(
            "no repository for store \"repo\": neither " + placement.cwd
            + " nor a directory above it has .agent-relay or .git");
    } else {
        placement.store = user_store(user);
    }
    if (const Status safe = check_store(placement.store); !safe.ok()) {
        return safe.error();
    }
    return placement;
}

Store user_store(const UserDirectories& user) {
    const path state{user.state};
    path anchor = state.parent_path();
    while (anchor != "/" && !is_directory(anchor)) {
        anchor = anchor.parent_path();
    }
    return {anchor.string(), state.lexically_relative(anchor).string(), /*is_repo=*/false};
}

}  // namespace relay::layout
