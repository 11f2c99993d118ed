// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/result.hpp"
#include "layout/ulid.hpp"

#include <cstdint>
#include <string>
#include <string_view>

// Names inside a session directory, relative to it.

namespace relay::layout {

inline constexpr std::string_view meta_file = "meta.json";
inline constexpr std::string_view resume_file = "resume.json";
inline constexpr std::string_view timeline_file = "events.jsonl";
inline constexpr std::string_view turns_directory = "turns";
inline constexpr std::string_view attachments_directory = "attachments";
inline constexpr std::string_view recovered_directory = "recovered";

// "turns/001-prompt.md"; three digits, more only from 1000 on.
[[nodiscard]] std::string prompt_file(std::int64_t turn);
[[nodiscard]] std::string output_file(std::int64_t turn);
[[nodiscard]] std::string stderr_file(std::int64_t turn);
[[nodiscard]] std::string state_file(std::int64_t turn);
[[nodiscard]] std::string diff_file(std::int64_t turn);

// What "turns/001-output.md" is called once it is compressed: "turns/001-output.md.zst".
inline constexpr std::string_view compressed_suffix = ".zst";
[[nodiscard]] std::string compressed_file(std::string_view file);

// Where our version goes when the user's stands in `file`: "turns/001-output.md" -> "recovered/001-output.md".
[[nodiscard]] std::string recovered_file(std::string_view file);

// The hidden name beside `file` that it is written under first: "turns/.001-state.json.tmp".
[[nodiscard]] std::string temporary_file(std::string_view file);
[[nodiscard]] bool is_temporary_name(std::string_view name);

// The file under attachments/ for a name from outside. Refuses (Errc::invalid, with the reason) what is
// empty, longer than 255 bytes, not UTF-8, "." or "..", begins with a dot, or holds '/', '\\' or a control character.
[[nodiscard]] Result<std::string> attachment_file(std::string_view name);

}  // namespace relay::layout
