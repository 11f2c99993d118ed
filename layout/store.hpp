// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/documents.hpp"
#include "layout/result.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

// Where sessions, state and sockets live. Reads the file system, writes nothing.

namespace relay::layout {

// Looks up an environment variable; injected so that tests need no setenv.
using Environment = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] Environment process_environment();

// The per-user base directories, absolute. Relative or empty XDG values are ignored, as XDG demands.
struct UserDirectories {
    std::string
        state;  // $AGENT_RELAY_HOME/state, or $XDG_STATE_HOME/agent-relay, or ~/.local/state/agent-relay
    std::string cache;       // likewise
    std::string config;      // likewise
    std::string home;        // $HOME; empty when unset
    bool relocated = false;  // AGENT_RELAY_HOME is set: every session goes to the user store
};
[[nodiscard]] Result<UserDirectories> user_directories(const Environment& environment);

// $AGENT_RELAY_SOCKET, else $XDG_RUNTIME_DIR/agent-relay/relay.sock, else $AGENT_RELAY_HOME/state/relay.sock,
// else ~/.local/state/agent-relay/relay.sock.
[[nodiscard]] Result<std::string> socket_path(const Environment& environment);

enum class StorePreference { automatic, repo, user };

// One place that holds sessions.
struct Store {
    // The directory that must exist already and is never made by us: the repository's root, or for the
    // user store the nearest existing ancestor of its state directory.
    std::string anchor;
    // Path of the store below the anchor: ".agent-relay", or ".local/state/agent-relay".
    std::string below;
    bool is_repo = false;

    [[nodiscard]] std::string root() const { return (anchor == "/" ? "" : anchor) + "/" + below; }
    [[nodiscard]] std::string sessions() const { return root() + "/sessions"; }
    bool operator==(const Store&) const = default;
};

struct Placement {
    Store store;
    std::string cwd;                      // canonical
    std::optional<Repo> repo;             // when cwd lies in a git work tree
    std::optional<std::string> worktree;  // root of the linked worktree, when cwd lies in one
};

// Decides where a session with this cwd is recorded, by the table in docs/format.md. Errc::invalid when
// cwd is not absolute, does not exist or is no directory; Errc::unsafe when the store's own path leads
// through a symbolic link or another user's directory.
[[nodiscard]] Result<Placement>
place_session(std::string_view cwd, StorePreference preference, const UserDirectories& user);

// The user store alone.
[[nodiscard]] Store user_store(const UserDirectories& user);

}  // namespace relay::layout
