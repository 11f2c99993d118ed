// SPDX-License-Identifier: Apache-2.0
#include "cli/trust_list.hpp"

#include "cli/descriptor.hpp"
#include "cli/durable_change.hpp"
#include "cli/human_text.hpp"
#include "layout/json_depth.hpp"
#include "layout/session_reader.hpp"
#include "layout/sha256.hpp"

#include <nlohmann/json.hpp>

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <system_error>

namespace relay::cli {

namespace {

using layout::Errc;
using layout::Error;
using layout::Result;
using layout::Status;
using nlohmann::ordered_json;

constexpr std::int64_t list_bytes_max = 16 << 20;
constexpr std::size_t list_depth_max = 8;

std::string path_of(const std::string& state_directory) {
    return state_directory + "/" + std::string(trust_file);
}

Error damaged(const std::string& path) {
    return Error{
        Errc::corrupt,
        0,
        path + " cannot be understood, so no repository is trusted; remove it and trust again"};
}

Result<std::vector<TrustedFile>> parse(const std::string& path, const std::string& text) {
    if (layout::json_depth(text) > list_depth_max) {
        return damaged(path);
    }
    const ordered_json list = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!list.is_object() || !list.contains("v") || list["v"] != 1 || !list.contains("trusted")
        || !list["trusted"].is_array()) {
        return damaged(path);
    }
    std::vector<TrustedFile> files;
    for (const ordered_json& entry : list["trusted"]) {
        const auto member = [&entry](const char* name) {
            const auto found = entry.is_object() ? entry.find(name) : entry.end();
            return entry.is_object() && found != entry.end() && found->is_string()
                       ? found->get<std::string>()
                       : std::string();
        };
        TrustedFile file{member("file"), member("sha256"), member("at")};
        if (file.file.empty() || file.sha256.empty()) {
            return damaged(path);
        }
        files.push_back(std::move(file));
    }
    return files;
}

Result<std::vector<TrustedFile>> read_list(const std::string& state_directory) {
    const std::string path = path_of(state_directory);
    const Result<std::string> text = layout::read_file(path, list_bytes_max);
    if (!text.ok()) {
        return text.error().code == Errc::not_found
                   ? std::vector<TrustedFile>()
                   : Result<std::vector<TrustedFile>>(text.error());
    }
    return parse(path, text.value());
}

std::string written(const std::vector<TrustedFile>& files) {
    ordered_json list{{"v", 1}, {"trusted", ordered_json::array()}};
    for (const TrustedFile& file : files) {
        list["trusted"].push_back({{"file", file.file}, {"sha256", file.sha256}, {"at", file.at}});
    }
    constexpr auto replace = ordered_json::error_handler_t::replace;
    return list.dump(2, ' ', /*ensure_ascii=*/false, replace) + "\n";
}

// Reads, changes and writes while nobody else does.
Status change(
    const std::string& state_directory,
    const std::function<void(std::vector<TrustedFile>&)>& apply) {
    if (Status made = make_directories(state_directory); !made.ok()) {
        return made;
    }
    const std::string lock_path = path_of(state_directory) + ".lock";
    const Descriptor lock(
        ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    int locked = -1;
    do {
        locked = lock.valid() ? ::flock(lock.get(), LOCK_EX) : -1;
    } while (locked != 0 && lock.valid() && errno == EINTR);
    if (locked != 0) {
        return Error{
            Errc::io, errno, "lock " + lock_path + ": " + std::system_category().message(errno)};
    }
    Result<std::vector<TrustedFile>> files = read_list(state_directory);
    if (!files.ok()) {
        return files.error();
    }
    apply(files.value());
    return write_atomically(path_of(state_directory), written(files.value()));
}

bool forget(std::vector<TrustedFile>& files, const std::string& file) {
    return std::erase_if(files, [&file](const TrustedFile& each) { return each.file == file; }) > 0;
}

}  // namespace

Result<TrustList> TrustList::read(const std::string& state_directory) {
    Result<std::vector<TrustedFile>> files = read_list(state_directory);
    if (!files.ok()) {
        return files.error();
    }
    TrustList list;
    list.files_ = std::move(files.value());
    return list;
}

bool TrustList::trusts(std::string_view file, std::string_view content) const {
    const std::string sum = layout::sha256_hex(content);
    return std::any_of(files_.begin(), files_.end(), [&](const TrustedFile& each) {
        return each.file == file && each.sha256 == sum;
    });
}

Status
trust(const std::string& state_directory, const std::string& file, std::string_view content) {
    return change(state_directory, [&](std::vector<TrustedFile>& files) {
        static_cast<void>(forget(files, file));  // as it was before, if at all
        files.push_back({file, layout::sha256_hex(content), layout::format_timestamp(now())});
    });
}

Result<bool> revoke_trust(const std::string& state_directory, const std::string& file) {
    bool known = false;
    const Status changed = change(
        state_directory, [&](std::vector<TrustedFile>& files) { known = forget(files, file); });
    return changed.ok() ? Result<bool>(known) : changed.error();
}

}  // namespace relay::cli
