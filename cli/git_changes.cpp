// SPDX-License-Identifier: Apache-2.0
#include "cli/git_changes.hpp"

#include "cli/agent_process.hpp"
#include "cli/captured_program.hpp"
#include "layout/json_writer.hpp"
#include "layout/session_reader.hpp"

#include <boost/filesystem.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace relay::cli {

namespace {

namespace fs = boost::filesystem;
using layout::Result;
using std::chrono::steady_clock;

constexpr std::chrono::seconds picture_time_max{10};
constexpr std::size_t candidates_max = 50'000;

bool is_later(const timespec& one, const timespec& other) {
    return one.tv_sec > other.tv_sec
           || (one.tv_sec == other.tv_sec && one.tv_nsec >= other.tv_nsec);
}

// The clock that file systems take their times from.
timespec file_time_now() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}

// The nearest directory above `path` that is still there: it tells when the path went.
bool look_above(std::string path, struct stat& status) {
    for (std::size_t cut = path.rfind('/'); cut != std::string::npos && cut > 0;
         cut = path.rfind('/')) {
        path.resize(cut);
        if (::lstat(path.c_str(), &status) == 0) {
            return true;
        }
    }
    return false;
}

// With the times of the original: git takes an entry on trust when its file is older than the index.
bool copy_index(const std::string& from, const std::string& to) {
    struct stat status {};
    boost::system::error_code failed;
    fs::remove(to, failed);
    if (::stat(from.c_str(), &status) != 0) {
        return errno == ENOENT;  // before the first `git add` there is none
    }
    fs::copy_file(from, to, failed);
    const timespec times[] = {status.st_atim, status.st_mtim};
    return !failed && ::utimensat(AT_FDCWD, to.c_str(), times, 0) == 0;
}

std::vector<std::string> parts_of(std::string_view text, char separator) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(separator), text.size());
        parts.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

// Of a submodule, whose own directory knows nothing of its commits: where git keeps its things they leave their time.
void look_at_repository(const std::string& submodule, struct stat& status) {
    const std::string link = submodule + "/.git";
    constexpr std::string_view word = "gitdir: ";
    const Result<std::string> pointer = layout::read_file(link, 4096);
    std::string place = link;
    if (pointer.ok() && pointer.value().starts_with(word)) {
        place = pointer.value().substr(word.size());
        place = place.substr(0, place.find('\n'));
        place = place.starts_with('/') ? place : submodule + "/" + place;
    }
    // One that cannot be looked at keeps the time of its directory.
    static_cast<void>(::stat(place.c_str(), &status));
}

// Whether what stands at `path`, or its absence, is of `time` or later.
bool changed_since(const timespec& time, const std::string& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
        return look_above(path, status) && is_later(status.st_ctim, time);
    }
    if (S_ISDIR(status.st_mode)) {
        look_at_repository(path, status);
    }
    return is_later(status.st_ctim, time);
}

// Lines, as git counts them: "-" for a binary file, nothing for one that is too large to be looked into.
struct Lines {
    std::string added;
    std::string removed;
};

struct FileChange {
    std::string path;
    std::string status;
    Lines lines;
};

std::string word_for(char letter) {
    switch (letter) {
    case 'A':
        return "added";
    case 'D':
        return "deleted";
    default:
        return "modified";
    }
}

// The answer of diff-tree --numstat -z --no-renames, by path.
std::map<std::string, Lines> lines_in(std::string_view answer) {
    std::map<std::string, Lines> lines;
    for (const std::string& part : parts_of(answer, '\0')) {
        const std::size_t first = part.find('\t');
        const std::size_t second = first == std::string::npos ? first : part.find('\t', first + 1);
        if (second != std::string::npos) {
            lines[part.substr(second + 1)] = {
                part.substr(0, first), part.substr(first + 1, second - first - 1)};
        }
    }
    return lines;
}

// The answers of diff-tree --name-status -z --no-renames, and of --numstat.
std::vector<FileChange> changes_in(std::string_view names, std::string_view numbers) {
    std::vector<FileChange> changes;
    std::map<std::string, Lines> lines = lines_in(numbers);
    const std::vector<std::string> parts = parts_of(names, '\0');
    for (std::size_t at = 0; at + 1 < parts.size(); at += 2) {
        const std::string& path = parts[at + 1];
        const char letter = parts[at].empty() ? 'M' : parts[at].front();
        changes.push_back({path, word_for(letter), std::move(lines[path])});
    }
    return changes;
}

void append_count(std::string& members, std::string_view name, const std::string& count) {
    if (!count.empty() && count != "-") {
        members.append(",\"").append(name).append("\":").append(count);
    }
}

// Whole files only, and a line about the rest.
std::string bounded_patch(std::string patch) {
    if (patch.size() <= GitChanges::patch_bytes_max) {
        return patch;
    }
    const std::size_t bytes = patch.size();
    const std::size_t cut = patch.rfind("\ndiff --git ", GitChanges::patch_bytes_max);
    patch.resize(cut == std::string::npos ? 0 : cut + 1);
    return patch + "# cut here by agent-relay: the whole patch has " + std::to_string(bytes)
           + " bytes\n";
}

// How a file that is too large to be shown looks from outside.
using LargeFiles =
    std::map<std::string, std::pair<std::int64_t, std::int64_t>>;  // size, mtime in ns

}  // namespace

struct GitChanges::Pictures {
    std::string git;
    std::string root;
    std::string directory;  // temporary
    std::vector<std::string> environment;
    std::thread thread;
    timespec began{};
    bool ready = false;  // the last picture that was due could be taken
    std::string tree_before;
    LargeFiles large_before;
    LargeFiles large_after;

    Pictures() = default;
    Pictures(const Pictures&) = delete;
    Pictures& operator=(const Pictures&) = delete;
    ~Pictures() {
        if (thread.joinable()) {
            thread.join();
        }
        boost::system::error_code ignored;
        fs::remove_all(directory, ignored);
    }

    [[nodiscard]] Result<std::string>
    ask(const std::string& index,
        std::vector<std::string> words,
        steady_clock::time_point deadline,
        std::string_view input = {}) const;
    [[nodiscard]] bool prepare(steady_clock::time_point deadline);
    [[nodiscard]] std::vector<std::string> candidates(
        const std::string& index,
        const timespec* until,
        steady_clock::time_point deadline,
        LargeFiles& large) const;
    [[nodiscard]] bool
    settle_conflicts(const std::string& index, steady_clock::time_point deadline) const;
    [[nodiscard]] bool is_untouched(const std::vector<std::string>& paths) const;
    [[nodiscard]] std::string take(
        const std::string& index,
        const std::vector<std::string>& paths,
        steady_clock::time_point deadline) const;
    void take_first();
    [[nodiscard]] std::string compare(steady_clock::time_point deadline);
    [[nodiscard]] std::string dirtiness(steady_clock::time_point deadline) const;
};

Result<std::string> GitChanges::Pictures::ask(
    const std::string& index,
    std::vector<std::string> words,
    steady_clock::time_point deadline,
    std::string_view input) const {
    Question question;
    question.program = git;
    question.words = {"git", "-C", root};
    for (const char* const setting :
         {"core.hooksPath=/dev/null",
          "core.fsmonitor=false",
          "core.splitIndex=false",
          "core.untrackedCache=false",
          "core.quotePath=false"}) {
        question.words.insert(question.words.end(), {"-c", setting});
    }
    question.words.insert(question.words.end(), words.begin(), words.end());
    question.environment = environment;
    if (!index.empty()) {
        question.environment.push_back("GIT_INDEX_FILE=" + directory + "/" + index);
    }
    question.input = input;
    question.deadline = deadline;
    return ask_program(question);
}

// Where git keeps its things, and a copy of the user's index.
bool GitChanges::Pictures::prepare(steady_clock::time_point deadline) {
    const Result<std::string> places =
        ask("",
            {"rev-parse",
             "--path-format=absolute",
             "--show-toplevel",
             "--git-path",
             "index",
             "--git-path",
             "objects"},
            deadline);
    if (!places.ok()) {
        return false;
    }
    const std::vector<std::string> lines = parts_of(places.value(), '\n');
    if (lines.size() != 3 || lines[2].find_first_of(":\"\\") != std::string::npos) {
        return false;  // a list of directories could not name it
    }
    root = lines[0];
    boost::system::error_code failed;
    fs::create_directory(directory + "/objects", failed);
    const bool copied = !failed && copy_index(lines[1], directory + "/start");
    environment.push_back("GIT_OBJECT_DIRECTORY=" + directory + "/objects");
    environment.push_back("GIT_ALTERNATE_OBJECT_DIRECTORIES=" + lines[2]);
    return copied;
}

// The paths that differ from the index, without large ones and without those that were changed at or after
// `until`.
std::vector<std::string> GitChanges::Pictures::candidates(
    const std::string& index,
    const timespec* until,
    steady_clock::time_point deadline,
    LargeFiles& large) const {
    std::vector<std::string> paths;
    // What is gone first: a directory may stand in the place of a file, and the other way round.
    for (const std::vector<std::string>& question : std::vector<std::vector<std::string>>{
             {"diff-files", "-z", "--name-only", "--ignore-submodules=dirty"},
             {"ls-files", "-z", "--others", "--exclude-standard"}}) {
        const Result<std::string> answer = ask(index, question, deadline);
        const std::vector<std::string> more = parts_of(answer.ok() ? answer.value() : "", '\0');
        paths.insert(paths.end(), more.begin(), more.end());
    }
    std::vector<std::string> wanted;
    if (paths.size() > candidates_max) {
        return wanted;
    }
    for (const std::string& path : paths) {
        const std::string whole = root + "/" + path;
        struct stat status {};
        const bool there = ::lstat(whole.c_str(), &status) == 0;
        if (there && path.ends_with('/')) {
            continue;  // a repository inside this one that it knows nothing of
        }
        if (until != nullptr && changed_since(*until, whole)) {
            continue;
        }
        if (there && !S_ISDIR(status.st_mode) && status.st_size > file_bytes_max) {
            large[path] = {
                status.st_size,
                std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
            continue;
        }
        wanted.push_back(path);
    }
    return wanted;
}

// Since the turn began.
bool GitChanges::Pictures::is_untouched(const std::vector<std::string>& paths) const {
    return std::none_of(paths.begin(), paths.end(), [this](const std::string& path) {
        return changed_since(began, root + "/" + path);
    });
}

// A merge that is not done leaves files in an index that no tree can be made of. Ours stand for them, or what there is.
bool GitChanges::Pictures::settle_conflicts(
    const std::string& index, steady_clock::time_point deadline) const {
    const Result<std::string> answer = ask(index, {"ls-files", "-u", "-z"}, deadline);
    std::map<std::string, std::pair<char, std::string>> sides;  // path -> stage, mode and id
    for (const std::string& entry : parts_of(answer.ok() ? answer.value() : "", '\0')) {
        const std::size_t tab = entry.find('\t');
        if (tab == std::string::npos || tab < 2) {
            return false;
        }
        auto& side = sides[entry.substr(tab + 1)];
        if (side.first != '2') {
            side = {entry[tab - 1], entry.substr(0, tab - 1)};
        }
    }
    std::string list;
    for (const auto& [path, side] : sides) {
        list.append(side.second).append("0\t").append(path).push_back('\0');
    }
    return !list.empty() && ask(index, {"update-index", "-z", "--index-info"}, deadline, list).ok();
}

// The id of the tree that `index` has with `paths` as they are now; empty when git failed.
std::string GitChanges::Pictures::take(
    const std::string& index,
    const std::vector<std::string>& paths,
    steady_clock::time_point deadline) const {
    std::string list;
    for (const std::string& path : paths) {
        list.append(path).push_back('\0');
    }
    if (!list.empty()
        && !ask(index, {"update-index", "-z", "--add", "--remove", "--stdin"}, deadline, list)
                .ok()) {
        return "";
    }
    Result<std::string> tree = ask(index, {"write-tree"}, deadline);
    if (!tree.ok() && settle_conflicts(index, deadline)) {
        tree = ask(index, {"write-tree"}, deadline);
    }
    return tree.ok() ? tree.value().substr(0, tree.value().find('\n')) : "";
}

void GitChanges::Pictures::take_first() {
    const steady_clock::time_point deadline = steady_clock::now() + picture_time_max;
    boost::system::error_code failed;
    if (ready) {
        // What the last turn ended with says more than the user's index, which knows no untracked file.
        fs::rename(directory + "/after", directory + "/start", failed);
        ready = !failed;
    } else {
        ready = prepare(deadline);
    }
    const LargeFiles large_at_start = std::exchange(large_after, {});
    bool taken = false;
    while (ready && !taken) {
        large_before = large_at_start;
        ready = copy_index(directory + "/start", directory + "/before");
        const std::vector<std::string> paths = candidates("before", &began, deadline, large_before);
        tree_before = take("before", paths, deadline);
        // A file that the agent changed after our look and before git's would be in the picture as the agent
        // made it. Once more then: this time it is left out.
        taken = is_untouched(paths);
        ready = ready && (taken ? !tree_before.empty() : steady_clock::now() < deadline);
    }
}

std::string GitChanges::Pictures::compare(steady_clock::time_point deadline) {
    const bool copied = copy_index(directory + "/before", directory + "/after");
    large_after.clear();
    const std::string tree_after =
        copied ? take("after", candidates("after", nullptr, deadline, large_after), deadline) : "";
    if (tree_after.empty()) {
        ready = false;
        return "";
    }
    std::vector<FileChange> changes;
    std::string patch;
    if (tree_after != tree_before) {
        const auto tell = [this, deadline, &tree_after](const std::string& what) {
            const Result<std::string> answer =
                ask("",
                    {"diff-tree", "-r", "-z", "--no-renames", what, tree_before, tree_after},
                    deadline);
            return answer.ok() ? answer.value() : "";
        };
        const Result<std::string> text =
            ask("",
                {"diff-tree",
                 "-r",
                 "-p",
                 "-M",
                 "--full-index",
                 "--no-color",
                 "--no-ext-diff",
                 "--no-textconv",
                 tree_before,
                 tree_after},
                deadline);
        changes = changes_in(tell("--name-status"), tell("--numstat"));
        patch = text.ok() ? bounded_patch(text.value()) : "";
    }
    for (const auto& [path, looks] : large_after) {
        const auto before = large_before.find(path);
        if (before == large_before.end() || before->second != looks) {
            changes.push_back({path, before == large_before.end() ? "added" : "modified", {}});
        }
    }
    std::string members = R"("files":[)";
    for (std::size_t at = 0; at < std::min(changes.size(), files_max); ++at) {
        members += at == 0 ? R"({"path":)" : R"(,{"path":)";
        layout::append_json_string(members, changes[at].path);
        members += R"(,"status":")" + changes[at].status + "\"";
        append_count(members, "added", changes[at].lines.added);
        append_count(members, "removed", changes[at].lines.removed);
        members += "}";
    }
    members += "]";
    if (!patch.empty()) {
        members += R"(,"diff":)";
        layout::append_json_string(members, patch);
    }
    return changes.empty() ? "" : members;
}

// By the user's own index: what was committed or staged is only known there.
std::string GitChanges::Pictures::dirtiness(steady_clock::time_point deadline) const {
    const Result<std::string> answer =
        ask("",
            {"status",
             "--porcelain",
             "--no-renames",
             "--untracked-files=normal",
             "--ignore-submodules=dirty"},
            deadline);
    return answer.ok() ? std::string(R"("dirty":)") + (answer.value().empty() ? "false" : "true")
                       : "";
}

GitChanges::GitChanges(std::unique_ptr<Pictures> pictures) : pictures_(std::move(pictures)) {
}
GitChanges::GitChanges(GitChanges&& other) noexcept = default;
GitChanges::~GitChanges() = default;

std::optional<GitChanges> GitChanges::watch(const std::string& directory, const std::string& path) {
    // Cheaper than asking git, which would have to be started for it.
    bool in_work_tree = false;
    for (fs::path at = directory; !at.empty() && !in_work_tree; at = at.parent_path()) {
        struct stat status {};
        in_work_tree = ::lstat((at / ".git").c_str(), &status) == 0;
    }
    const Result<std::string> git = find_program("git", path);
    if (!in_work_tree || !git.ok()) {
        return std::nullopt;
    }
    auto pictures = std::make_unique<Pictures>();
    boost::system::error_code failed;
    const fs::path place =
        fs::temp_directory_path(failed) / fs::unique_path("agent-relay-%%%%%%%%%%%%", failed);
    if (failed || ::mkdir(place.c_str(), 0700) != 0) {
        return std::nullopt;
    }
    pictures->git = git.value();
    pictures->root = directory;
    pictures->directory = place.string();
    for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable) {
        if (!std::string_view(*variable).starts_with("GIT_")) {
            pictures->environment.emplace_back(*variable);
        }
    }
    pictures->environment.insert(
        pictures->environment.end(), {"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0"});
    return GitChanges(std::move(pictures));
}

void GitChanges::begin() {
    pictures_->began = file_time_now();
    pictures_->thread = std::thread([pictures = pictures_.get()] { pictures->take_first(); });
}

std::string GitChanges::end() {
    if (!pictures_->thread.joinable()) {
        return "";
    }
    pictures_->thread.join();
    const steady_clock::time_point deadline = steady_clock::now() + picture_time_max;
    const std::string changes = pictures_->ready ? pictures_->compare(deadline) : "";
    const std::string dirtiness = pictures_->dirtiness(deadline);
    return changes + (changes.empty() || dirtiness.empty() ? "" : ",") + dirtiness;
}

}  // namespace relay::cli
