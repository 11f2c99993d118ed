// SPDX-License-Identifier: Apache-2.0
#include "cli/checkup.hpp"
#include "cli/human_text.hpp"
#include "cli/run_options.hpp"
#include "cli/session_choice.hpp"
#include "cli/session_scan.hpp"
#include "layout/input_file.hpp"
#include "layout/session_paths.hpp"
#include "layout/store_registry.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

namespace {

using layout::InputDirectory;
using layout::Meta;
using layout::Result;
using layout::SessionStatus;
using layout::Store;

// Of each kind; a person mends the first ones and looks again.
constexpr std::size_t named_max = 20;

bool is_directory(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// What is left of a session goes to the trash once a person has seen it and agreed.
std::string mend_of(const SkippedSession& skipped) {
    const std::string directory = as_typed({skipped.directory});
    return skipped.why.code == layout::Errc::invalid
               ? "agent-relay --version  # a newer one reads this session"
               : "agent-relay verify " + directory + " || agent-relay delete " + directory;
}

// The daemon writes the registry from what it remembers, so it must not run meanwhile.
std::string forget_store(const CheckupPlaces& places, const Store& store) {
    const std::string registry = places.user.state + "/" + std::string(layout::registry_file);
    return "agent-relay daemon stop && (umask 077 && jq --arg anchor " + as_typed({store.anchor})
           + " 'del(.stores[] | select(.anchor == $anchor))' " + as_typed({registry}) + " > "
           + as_typed({registry + ".new"}) + ") && mv " + as_typed({registry + ".new", registry})
           + " && agent-relay daemon start";
}

bool is_alive(std::int64_t pid) {
    return pid > 0 && (::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH);
}

std::string this_host() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Active, and nobody will ever say more about it by itself.
bool is_stale(const Meta& meta, const CheckupPlaces& places, bool daemon_answers) {
    if (meta.status != SessionStatus::active) {
        return false;
    }
    // A living daemon ends those itself that it knows, some time after their client has gone.
    constexpr std::int64_t margin_ms = 60'000;
    const std::int64_t silent_ms = now().ms - meta.updated_at.ms;
    const bool had_time = !daemon_answers || silent_ms > places.orphan_grace.count() + margin_ms;
    const bool here = meta.host.value_or("") == this_host();
    if (meta.pid && here) {
        return had_time && !is_alive(*meta.pid);
    }
    // Of another machine, or without a number: only a daemon could know an owner.
    return had_time && (!daemon_answers || !here);
}

void check_stale(
    const SessionScan& scan,
    const CheckupPlaces& places,
    bool daemon_answers,
    std::vector<CheckupFinding>& findings) {
    std::size_t stale = 0;
    for (const ScannedSession& session : scan.sessions) {
        if (!is_stale(session.meta, places, daemon_answers) || ++stale > named_max) {
            continue;
        }
        const std::string id = session.meta.id.text();
        findings.push_back(
            {"sessions",
             session.directory + " (" + session.meta.slug
                 + ") is active, but nobody is recording it; last heard of "
                 + clock_text(session.meta.updated_at),
             daemon_answers ? "agent-relay emit session.checkpoint --no-attach session=" + id
                                  + " reason=abandoned force:=true"
                            : "agent-relay daemon start"});
    }
    if (stale > named_max) {
        findings.push_back(
            {"sessions",
             std::to_string(stale - named_max) + " more are active without anybody recording them",
             "agent-relay doctor  # again, once the others are mended"});
    }
    if (stale == 0) {
        findings.push_back(
            {"sessions",
             counted(std::ssize(scan.sessions), "session") + ", none of them abandoned",
             ""});
    }
    for (const SkippedSession& skipped :
         std::span(scan.skipped).first(std::min(scan.skipped.size(), named_max))) {
        findings.push_back(
            {"sessions", skipped.directory + ": " + reason_of(skipped), mend_of(skipped)});
    }
}

void check_leftovers(const std::string& directory, std::vector<CheckupFinding>& findings) {
    Result<InputDirectory> opened =
        InputDirectory::open(AT_FDCWD, directory, InputDirectory::Links::refuse);
    if (!opened.ok()) {
        return;
    }
    const auto entries = opened.value().entries();
    for (const InputDirectory::Entry& entry :
         entries.ok() ? entries.value() : std::vector<InputDirectory::Entry>()) {
        if (layout::is_temporary_name(entry.name)) {
            const std::string path = directory + "/" + entry.name;
            findings.push_back(
                {"leftovers",
                 path + " is no part of its session; it was left when writing it was interrupted",
                 "rm " + as_typed({path})});
        }
    }
}

}  // namespace

std::vector<CheckupFinding> check_stores(const CheckupPlaces& places, bool daemon_answers) {
    std::vector<CheckupFinding> findings;
    ScanRequest request;
    for (const Store& store : layout::known_stores(places.user)) {
        if (!is_directory(store.sessions())) {
            // The user store is made with its first session.
            if (store.is_repo) {
                findings.push_back(
                    {"stores",
                     store.root() + " is remembered and no longer there",
                     forget_store(places, store)});
            }
            continue;
        }
        request.sessions_directories.push_back(store.sessions());
        check_permissions("permissions", store.root(), findings);
        check_permissions("permissions", store.sessions(), findings);
        check_durability(
            "durability",
            store.sessions(),
            store.is_repo
                ? "AGENT_RELAY_SESSIONS__STORE=user agent-relay daemon restart  # sessions.store "
                  "in "
                      + places.config_file + " keeps it so"
                : "export XDG_STATE_HOME=/a/directory/on/a/disk && agent-relay daemon restart",
            findings);
    }
    const SessionScan scan = scan_sessions(request);
    check_stale(scan, places, daemon_answers, findings);
    const std::size_t before = findings.size();
    for (const ScannedSession& session : scan.sessions) {
        // Those of a running session come and go.
        if (session.meta.status != SessionStatus::active && findings.size() < before + named_max) {
            check_leftovers(session.directory, findings);
            check_leftovers(
                session.directory + "/" + std::string(layout::turns_directory), findings);
        }
    }
    return findings;
}

}  // namespace relay::cli
