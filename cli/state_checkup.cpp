// SPDX-License-Identifier: Apache-2.0
#include "cli/checkup.hpp"
#include "cli/descriptor.hpp"
#include "cli/human_text.hpp"
#include "cli/run_options.hpp"
#include "cli/trust_list.hpp"
#include "delivery/spool_file.hpp"
#include "layout/durability.hpp"
#include "layout/input_file.hpp"
#include "layout/session_paths.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace relay::cli {

namespace {

using layout::Durability;
using layout::InputDirectory;
using layout::Result;

std::vector<InputDirectory::Entry> entries_of(const std::string& path) {
    Result<InputDirectory> directory =
        InputDirectory::open(AT_FDCWD, path, InputDirectory::Links::follow);
    if (!directory.ok()) {
        return {};
    }
    Result<std::vector<InputDirectory::Entry>> entries = directory.value().entries();
    return entries.ok() ? std::move(entries.value()) : std::vector<InputDirectory::Entry>();
}

std::string size_text(std::int64_t bytes) {
    constexpr std::int64_t mib = 1 << 20;
    return bytes < mib ? std::to_string(bytes / 1024) + " KiB"
                       : std::to_string(bytes / mib) + " MiB";
}

void check_journal(const CheckupPlaces& places, std::vector<CheckupFinding>& findings) {
    std::int64_t bytes = 0;
    std::int64_t segments = 0;
    std::int64_t checkpoints = 0;
    for (const InputDirectory::Entry& entry : entries_of(places.journal)) {
        const std::string path = places.journal + "/" + entry.name;
        struct stat status {};
        if (entry.name.starts_with("damaged-")) {
            findings.push_back(
                {"journal",
                 path + " is a copy of a journal of which acknowledged batches could not be read",
                 "agent-relay verify --all-repos && rm -r " + as_typed({path})});
        } else if (entry.name.starts_with("segment-") && ::stat(path.c_str(), &status) == 0) {
            ++segments;
            bytes += status.st_size;
        } else if (entry.name.starts_with("checkpoint.")) {
            ++checkpoints;
        }
    }
    const std::int64_t spills = std::ssize(entries_of(places.journal + "/spill"));
    if (spills > 0) {
        findings.push_back(
            {"journal",
             counted(spills, "session") + " have changes in " + places.journal
                 + "/spill that their own disk has not taken",
             "agent-relay daemon status  # names the disk under volumes"});
    }
    if (segments > 0 && checkpoints == 0) {
        findings.push_back(
            {"journal",
             places.journal + " has segments and no checkpoint",
             "agent-relay daemon restart"});
    } else {
        findings.push_back(
            {"journal",
             places.journal + ": " + counted(segments, "segment") + ", " + size_text(bytes),
             ""});
    }
}

void check_spool(const CheckupPlaces& places, std::vector<CheckupFinding>& findings) {
    const std::string spool = places.user.state + "/spool";
    std::int64_t waiting = 0;
    for (const std::string& path : delivery::SpoolFile::list(spool)) {
        // Somebody holds those that are being written or delivered.
        waiting += delivery::SpoolFile::open(path).ok() ? 1 : 0;
    }
    if (waiting > 0) {
        findings.push_back(
            {"spool",
             "events of " + counted(waiting, "session") + " in " + spool
                 + " have not reached the daemon yet",
             "agent-relay daemon start"});
    }
    for (const InputDirectory::Entry& entry : entries_of(spool)) {
        if (entry.name.ends_with(".undeliverable")) {
            const std::string path = spool + "/" + entry.name;
            findings.push_back(
                {"spool",
                 path + " holds events that no daemon takes",
                 "less " + as_typed({path}) + " && rm " + as_typed({path})});
        }
    }
    if (waiting == 0 && (findings.empty() || findings.back().check != "spool")) {
        findings.push_back({"spool", "every event has reached the daemon", ""});
    }
}

// What a process that was killed may leave behind; what is young may still be in use.
void check_leftovers(const std::string& directory, std::vector<CheckupFinding>& findings) {
    constexpr std::int64_t young_s = 60;
    for (const InputDirectory::Entry& entry : entries_of(directory)) {
        const std::string path = directory + "/" + entry.name;
        struct stat status {};
        if (layout::is_temporary_name(entry.name) && ::lstat(path.c_str(), &status) == 0
            && status.st_mtime + young_s < now().ms / 1000) {
            findings.push_back(
                {"leftovers",
                 path + " was left by a process that did not end well",
                 "rm " + as_typed({path})});
        }
    }
}

}  // namespace

void check_permissions(
    std::string_view check, const std::string& path, std::vector<CheckupFinding>& findings) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        return;
    }
    const std::string word = as_typed({path});
    if (status.st_uid != ::geteuid()) {
        findings.push_back(
            {std::string(check),
             path + " belongs to user " + std::to_string(status.st_uid),
             "sudo chown \"$(id -u)\" " + word});
    }
    if ((status.st_mode & 077) != 0) {
        findings.push_back(
            {std::string(check), path + " can be reached by others than you", "chmod go= " + word});
    }
}

void check_durability(
    std::string_view check,
    const std::string& path,
    const std::string& mend,
    std::vector<CheckupFinding>& findings) {
    const Descriptor opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened.valid()) {
        return;
    }
    const Result<Durability> found = layout::durability_of(opened.get(), path);
    const Result<std::uint32_t> magic = layout::file_system_magic(opened.get(), path);
    if (!found.ok() || !magic.ok()) {
        findings.push_back(
            {std::string(check), (found.ok() ? magic.error() : found.error()).context, mend});
        return;
    }
    const std::string name = layout::file_system_name(magic.value());
    switch (found.value()) {
    case Durability::synced:
        findings.push_back({std::string(check), path + " lies on a disk (" + name + ")", ""});
        break;
    case Durability::memory:
        findings.push_back(
            {std::string(check),
             path + " lies in memory (" + name + "): nothing there survives a power cut",
             mend});
        break;
    case Durability::network:
        findings.push_back(
            {std::string(check),
             path + " lies on " + name + ", whose server decides what survives a power cut",
             mend});
        break;
    }
}

std::vector<CheckupFinding> check_state(const CheckupPlaces& places) {
    std::vector<CheckupFinding> findings;
    const std::string& state = places.user.state;
    for (const std::string& path :
         {state,
          state + "/spool",
          state + "/handoff",
          state + "/daemon.log",
          state + "/stores.json",
          state + "/trust.json",
          places.journal}) {
        check_permissions("permissions", path, findings);
    }
    if (findings.empty()) {
        findings.push_back({"permissions", state + " and what lies in it are yours alone", ""});
    }
    check_durability(
        "durability",
        places.journal,
        "agent-relay daemon restart -- --journal-dir \"$HOME/relay-journal\"  # or another "
        "directory on a "
        "disk; journal.dir in "
            + places.config_file + " keeps it so",
        findings);
    check_journal(places, findings);
    check_spool(places, findings);
    check_leftovers(state, findings);
    check_leftovers(state + "/spool", findings);
    check_leftovers(state + "/handoff", findings);
    if (const Result<TrustList> list = TrustList::read(state); !list.ok()) {
        findings.push_back(
            {"trust",
             list.error().context,
             "rm " + as_typed({state + "/" + std::string(trust_file)})});
    }
    return findings;
}

}  // namespace relay::cli
