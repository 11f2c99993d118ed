// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/recording.hpp"

#include "layout/session_reader.hpp"
#include "layout/timestamp.hpp"
#include "layout/ulid.hpp"

#include <boost/filesystem.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <mutex>
#include <sstream>

namespace relay::tests {

namespace filesystem = boost::filesystem;

DaemonSetup small_journal(std::vector<std::string> more_flags) {
    DaemonSetup setup;
    setup.flags = {"--set", "journal.segment_bytes=4MiB", "--set", "daemon.max_event_bytes=2MiB"};
    setup.flags.insert(setup.flags.end(), more_flags.begin(), more_flags.end());
    return setup;
}

std::string Recording::file(std::string_view name) const {
    return path + "/" + std::string(name);
}

std::string Recording::text(std::string_view name) const {
    return read_text(file(name));
}

bool Recording::has(std::string_view name) const {
    return exists(file(name));
}

Json Recording::json(std::string_view name) const {
    return Json::parse(text(name), nullptr, /*allow_exceptions=*/false);
}

std::vector<Json> Recording::timeline() const {
    std::vector<Json> lines;
    std::istringstream text(this->text("events.jsonl"));
    for (std::string line; std::getline(text, line);) {
        lines.push_back(Json::parse(line, nullptr, /*allow_exceptions=*/false));
    }
    return lines;
}

Recording start_session(WireClient& client, const std::string& cwd, const Json& fields) {
    Json request{{"type", "session.start"}, {"agent", "custom"}, {"cwd", cwd}};
    request.update(fields);
    Recording recording;
    recording.answer = client.request(std::move(request));
    recording.id = recording.answer.value("session", "");
    recording.slug = recording.answer.value("slug", "");
    recording.path = recording.answer.value("path", "");
    return recording;
}

std::string new_ulid() {
    static std::mutex mutex;
    static layout::UlidSource source;
    const std::lock_guard lock(mutex);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    return source.next(layout::Timestamp{milliseconds}).text();
}

bool is_ack(const Json& answer) {
    return answer.is_object() && answer.value("type", "") == "ack";
}

std::string code_of(const Json& answer) {
    return answer.is_object() && answer.value("type", "") == "error" ? answer.value("code", "")
                                                                     : "";
}

std::string message_of(const Json& answer) {
    return answer.is_object() ? answer.value("message", "") : "";
}

std::string read_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

void write_text(const std::string& path, std::string_view text) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

bool exists(const std::string& path) {
    struct stat found {};
    return ::lstat(path.c_str(), &found) == 0;
}

int mode_of(const std::string& path) {
    struct stat found {};
    return ::lstat(path.c_str(), &found) == 0 ? static_cast<int>(found.st_mode & 07777) : -1;
}

std::vector<std::string> tree_of(const std::string& directory) {
    std::vector<std::string> names;
    boost::system::error_code ignored;
    for (filesystem::recursive_directory_iterator entry(directory, ignored), end; entry != end;
         entry.increment(ignored)) {
        const bool nested = filesystem::is_directory(entry->symlink_status());
        names.push_back(entry->path().string().substr(directory.size() + 1) + (nested ? "/" : ""));
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string damage_of(const std::string& session_directory) {
    const auto verification = layout::verify_session(session_directory);
    if (!verification.ok()) {
        return session_directory + ": " + verification.error().context + "\n";
    }
    std::string all;
    for (const layout::Finding& finding : verification.value().damage) {
        all += finding.file + ": " + finding.what + "\n";
    }
    return all;
}

bool make_repository(const std::string& directory) {
    const std::string git = "git -C '" + directory + "' -c user.name=t -c user.email=t@localhost ";
    return run_shell(
               "mkdir -p '" + directory + "' && " + git + "init -q -b main && " + git
               + "commit -q --allow-empty -m first")
               .status
           == 0;
}

}  // namespace relay::tests
